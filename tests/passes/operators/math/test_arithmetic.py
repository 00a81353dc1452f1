"""Arithmetic of one and two operands: types that the older versions do not take, signs, and what a backend lacks."""

import itertools

import numpy as np
import onnx.checker
import onnx.helper
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators import legacy
from tests.passes.operators.elements import CODE
from tests.passes.operators.on_request import INTS, X, computed, same_bits
from tests.support import check, check_computes, check_refused, check_unchanged, evaluate, model, show

XY = {"inputs": "float[2,3] a, float[3] b", "outputs": "float[2,3] y"}


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_floats_pass_through(op):
    check_unchanged(f"y = {op}(a, b)", 7, 28, **XY)
    check_unchanged(f"y = {op}(a, b)", 28, 7, **XY)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_small_integers_wrap_in_int32_below_14(op, kind):
    big = np.array([127, 100, 3], kind)
    check(
        f"y = {op}(a, b)", 14, f"t1 = Cast<to=6>(a)\nt2 = Cast<to=6>(b)\nt3 = {op}(t1, t2)\ny = Cast<to={CODE[kind]}>(t3)",
        13, inputs=f"{kind}[3] a, {kind}[3] b", outputs=f"{kind}[3] y", feeds={"a": big, "b": np.array([127, 7, 5], kind)},
    )  # fmt: skip


def test_bfloat16_does_not_exist_below_13():
    check_refused("y = Abs(x)", 13, 12, "bfloat16", inputs="bfloat16[3] x", outputs="bfloat16[3] y")


@pytest.mark.parametrize("kind", ["int32", "uint32"])
@pytest.mark.parametrize("op", ["Add", "Mul", "Sub", "Div"])
def test_integers_are_computed_in_double_below_6(op, kind):
    io = {"inputs": f"{kind}[3] a, {kind}[1] b", "outputs": f"{kind}[3] y"}
    made = convert.attempt(model(f"y = {op}(a, b)", 7, **io), {"": 5})
    assert made.grade == ("close" if op == "Div" else "exact")
    assert [n.op_type for n in made.model.graph.node if n.op_type not in ("Floor", "Mul", "Sub", "Add", op)] == [
        "Cast"
    ] * 3
    onnx.checker.check_model(made.model, full_check=True)
    feeds = {"a": np.array([46340, 9, 2**24 + 3], kind), "b": np.array([7], kind)}
    expected = {"Add": feeds["a"] + 7, "Sub": feeds["a"] - 7, "Mul": feeds["a"] * 7, "Div": feeds["a"] // 7}[op]
    np.testing.assert_array_equal(legacy.run(made.model, feeds)[0], expected)


ENDS = {"int32": [-(2**31), 2**31 - 1, -1, 0, 1, 46341, -123456789], "uint32": [0, 1, 2**31, 2**32 - 1, 65536, 65537, 123456789]}  # fmt: skip


@pytest.mark.parametrize("kind", ["int32", "uint32"])
@pytest.mark.parametrize("op", ["Add", "Mul", "Sub"])
@pytest.mark.parametrize("constant", [False, True])
def test_what_overflows_wraps_around_below_6(op, kind, constant):
    a, b = (np.array(side, kind) for side in zip(*itertools.product(ENDS[kind], repeat=2), strict=True))
    if constant:
        b = np.array([3] * len(a), kind)
    held = f"{kind}[{len(b)}] b = {{{', '.join(map(str, b))}}}" if constant else ""
    given = f"{kind}[{len(a)}] a" + ("" if constant else f", {kind}[{len(b)}] b")
    source = model(f"y = {op}(a, b)", 7, inputs=given, outputs=f"{kind}[{len(a)}] y", constants=held)
    made = convert.attempt(source, {"": 5})
    assert made.grade == "exact"
    feeds = {"a": a} if constant else {"a": a, "b": b}
    (expected,) = evaluate(source, feeds)
    np.testing.assert_array_equal(legacy.run(made.model, feeds)[0], expected)
    again = convert.attempt(made.model, {"": 7}).model
    np.testing.assert_array_equal(evaluate(again, feeds)[0], expected)


@pytest.mark.parametrize(
    ("op", "kind"), [("Abs", "int8"), ("Abs", "int16"), ("Abs", "int32"), ("Neg", "int32"), ("Neg", "int8")]
)
def test_signs_are_computed_in_double_below_6(op, kind):
    made = convert.attempt(model(f"y = {op}(x)", 6, inputs=f"{kind}[3] x", outputs=f"{kind}[3] y"), {"": 5})
    assert show(made.model) == f"t1 = Cast<to=DOUBLE>(x)\nt2 = {op}(t1)\ny = Cast<to={kind.upper()}>(t2)"
    onnx.checker.check_model(made.model, full_check=True)  # which needs the type of the cast stated


def test_integers_that_no_double_holds_are_refused_below_6():
    check_refused("y = Abs(x)", 6, 5, "int64", inputs="int64[3] x", outputs="int64[3] y")
    check_refused("y = Add(a, b)", 6, 5, "int64", inputs="int64[3] a, int64[3] b", outputs="int64[3] y")


@pytest.mark.parametrize("kind", ["uint8", "uint64"])
def test_unsigned_integers_are_their_own_magnitude_below_6(kind):
    assert (
        show(convert.attempt(model("y = Abs(x)", 6, inputs=f"{kind}[3] x", outputs=f"{kind}[3] y"), {"": 5}).model)
        == "y = Identity(x)"
    )


DTYPES = {"float": np.float32, "double": np.float64, "float16": np.float16}


@pytest.mark.parametrize("kind", [*DTYPES, "int8", "int64", "uint8", "uint64"])
def test_signs(kind):
    dtype = DTYPES.get(kind, kind)
    x = np.array(
        [0, 1, 2, 100, np.iinfo(kind).max, np.iinfo(kind).min]
        if kind not in DTYPES
        else [0, -0.0, np.nan, np.inf, -np.inf, -3],
        dtype,
    )
    check_computes("y = Sign(x)", 9, 8, np.sign(x), feeds={"x": x}, inputs=f"{kind}[6] x", outputs=f"{kind}[6] y")


@pytest.mark.parametrize("opset", [13, 22])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    ("call", "expected"),
    [("Abs(x)", np.abs), ("Neg(x)", np.negative), ("Reciprocal(x)", lambda x: 1 / x)],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:overflow")
def test_of_one_operand(call, expected, dtype, opset):
    x = X.astype(dtype)
    same_bits(computed(call, x, opset=opset, kind="float16" if dtype == np.float16 else None), expected(x))


@pytest.mark.parametrize(("call", "expected"), [("Abs(x)", np.abs), ("Neg(x)", np.negative)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_of_one_operand(call, expected, dtype):
    x = np.append(INTS, np.iinfo(dtype).min).astype(dtype)  # the least one has no negative: it stays
    same_bits(computed(call, x), expected(x))


def test_absolute_values_of_unsigned_numbers_are_they_themselves():
    x = np.array([0, 1, 2**32 - 1], np.uint32)
    same_bits(computed("Abs(x)", x), x)


def test_shapes_that_hold_nothing_and_scalars():
    same_bits(computed("Abs(x)", np.zeros((0, 3), np.float32)), np.zeros((0, 3), np.float32))
    same_bits(computed("Abs(x)", np.array(-0.5, np.float32)), np.array(0.5, np.float32))


def test_inside_a_branch():
    branches = "then_branch = g () => (a) { a = Abs(x) }, else_branch = h () => (b) { b = Neg(x) }"
    of = model(f"r = If(q)<{branches}>", 16, inputs="float[12] x, bool q", outputs="float[12] r")
    after = convert.attempt(of, {"": 16}, ops=[("", "Abs"), ("", "Neg")]).model
    assert after is not None
    made = {node.op_type for a in after.graph.node[-1].attribute for node in a.g.node}
    assert made == {"Greater", "Sub", "Where", "Mul"}
    same_bits(evaluate(after, {"x": X, "q": np.array(True)})[0], np.abs(X))
    same_bits(evaluate(after, {"x": X, "q": np.array(False)})[0], np.negative(X))

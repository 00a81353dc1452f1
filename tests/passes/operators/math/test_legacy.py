"""Opset 6: the hint consumed_inputs went, defaults were settled, integers came to arithmetic."""

import itertools

import numpy as np
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators import legacy
from tests.support import check_refused, check_unchanged, evaluate, model, show

X = {"inputs": "{0}[3] x", "outputs": "{0}[3] y"}
UNARY = [
    *("Abs", "Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log", "Max", "Mean", "Min", "Neg"),
    *("Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sum", "Tanh"),
]


def of(kind):
    return {key: text.format(kind) for key, text in X.items()}


@pytest.mark.parametrize("op", UNARY)
def test_the_hint_goes_at_6(op):
    source = model(f"y = {op}<consumed_inputs=[0]>(x)", 1, **of("float"))
    assert show(convert.attempt(source, {"": 6}).model) == f"y = {op}(x)"
    check_unchanged(f"y = {op}(x)", 1, 6, **of("float"))
    check_unchanged(f"y = {op}(x)", 6, 1, **of("float"))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_broadcasting_stays_what_it_was_at_6(op):
    io = {"inputs": "float[2,3,4] a, float[3] b", "outputs": "float[2,3,4] y"}
    source = model(f"y = {op}<axis=1, broadcast=1, consumed_inputs=[0, 0]>(a, b)", 1, **io)
    assert show(convert.attempt(source, {"": 6}).model) == f"y = {op}<axis=1, broadcast=1>(a, b)"
    check_unchanged(f"y = {op}<axis=1, broadcast=1>(a, b)", 6, 1, **io)


def test_defaults_of_selu_are_written_out():
    up = convert.attempt(model("y = Selu(x)", 1, **of("float")), {"": 6}).model
    assert show(up) == "y = Selu<alpha=1.6732, gamma=1.0507>(x)"
    down = convert.attempt(model("y = Selu(x)", 6, **of("float")), {"": 1}).model
    assert show(down) == "y = Selu<alpha=1.67326, gamma=1.0507>(x)"
    ((alpha, gamma),) = [[a.f for a in n.attribute] for n in down.graph.node]
    assert (alpha, gamma) == (1.67326319217681884765625, 1.05070102214813232421875)
    check_unchanged("y = Selu<alpha=1.0, gamma=2.0>(x)", 1, 22, **of("float"))


def test_limits_of_clip_are_written_out_for_other_types():
    check_unchanged("y = Clip(x)", 1, 6, **of("float"))
    check_unchanged("y = Clip<min=1.0, max=2.0>(x)", 1, 6, **of("double"))
    check_unchanged("y = Clip<min=1.0>(x)", 6, 1, **of("float"))
    shown = {
        ("float16", 1, 6): ("y = Clip<max=65504, min=1>(x)", "exact"),
        ("double", 1, 6): ("y = Clip<max=inf, min=1>(x)", "close"),
        ("double", 6, 1): ("y = Clip<max=3.40282e+38, min=1>(x)", "exact"),
    }
    for (kind, opset, target), expected in shown.items():
        made = convert.attempt(model("y = Clip<min=1.0>(x)", opset, **of(kind)), {"": target})
        assert (show(made.model), made.grade) == expected


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
    made = convert.attempt(model(f"y = {op}(x)", 6, **of(kind)), {"": 5})
    assert show(made.model) == f"t1 = Cast<to=DOUBLE>(x)\nt2 = {op}(t1)\ny = Cast<to={kind.upper()}>(t2)"
    onnx.checker.check_model(made.model, full_check=True)  # which needs the type of the cast stated


def test_integers_that_no_double_holds_are_refused_below_6():
    check_refused("y = Abs(x)", 6, 5, "int64", **of("int64"))
    check_refused("y = Add(a, b)", 6, 5, "int64", inputs="int64[3] a, int64[3] b", outputs="int64[3] y")


@pytest.mark.parametrize("kind", ["uint8", "uint64"])
def test_unsigned_integers_are_their_own_magnitude_below_6(kind):
    assert show(convert.attempt(model("y = Abs(x)", 6, **of(kind)), {"": 5}).model) == "y = Identity(x)"


def test_from_1_to_28_and_back():
    io = {"inputs": "float[2,3] a, float[2] b", "outputs": "float[2,3] y"}
    body = "s = Mul<axis=0, broadcast=1, consumed_inputs=[0, 0]>(a, b)\nt = Relu<consumed_inputs=[0]>(s)\ny = Clip<min=0.5>(t)"
    up = convert.attempt(model(body, 1, **io), {"": 26}).model
    assert show(up) == "t1 = Unsqueeze(b, [1])\nt2 = Mul(a, t1)\nt3 = Relu(t2)\ny = Clip(t3, 0.5)"
    feeds = {"a": np.array([[1, -2, 3], [4, 5, -6]], np.float32), "b": np.array([2, -1], np.float32)}
    np.testing.assert_array_equal(evaluate(up, feeds)[0], [[2, 0.5, 6], [0.5, 0.5, 6]])


def test_types_of_made_values_are_known_below_6():
    io = {"inputs": "float[3,4] x, float l, float h", "outputs": "float[3,4] y"}
    made = convert.attempt(model("y = Clip(x, l, h)", 12, **io), {"": 5})
    assert not made.refusals, "\n".join(map(str, made.refusals))
    assert {n.op_type for n in made.model.graph.node} == {"Pow", "Mul", "Max", "Min"}
    integers = {"inputs": "int64[3] a, int64[3] b", "outputs": "bool[3] y"}
    refused = convert.attempt(model("y = Less(a, b)", 9, **integers), {"": 5}).refusals
    assert {r.op for r in refused} == {"Less"}
    assert {r.why.split(" ")[2] for r in refused} == {
        "Div",
        "Sub",
        "Mul",
    }  # of int64, which nothing else could compute there

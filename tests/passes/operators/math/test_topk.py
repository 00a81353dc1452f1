"""TopK: k from attribute to input and back, the smallest elements, and types."""

import numpy as np
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.elements import CODE, array
from tests.support import check, check_computes, check_down, check_refused, check_unchanged, evaluate, model

K = {"constants": "int64[1] k = {2}"}


def io(kind="float", dims="3,4", out="3,2"):
    return {"inputs": f"{kind}[{dims}] x", "outputs": f"{kind}[{out}] v, int64[{out}] i"}


def test_k_becomes_an_input_at_10():
    check("v, i = TopK<k=2>(x)", 9, "v, i = TopK(x, [2])", 10, **io())
    check(
        "v, i = TopK<k=2, axis=0>(x)", 1, "v, i = TopK<axis=0>(x, [2])", 28, run=False, **io(out="2,4")
    )  # no engine for opset 1 and 28


def test_a_constant_k_becomes_an_attribute_below_10():
    check("v, i = TopK<axis=1>(x, k)", 10, "v, i = TopK<axis=1, k=2>(x)", 9, **io(), **K)


@pytest.mark.parametrize("k", [-1, -(2**63)])
def test_a_constant_k_below_0_is_refused_below_10(k):
    given = {**io(out="P,Q"), "constants": f"int64[1] k = {{{k}}}"}
    check_refused("v, i = TopK(x, k)", 10, 9, f"k={k}; supported: 0 or more", **given)
    inside = "v, i = If(c) <then_branch = t () => (float[A,B] p, int64[A,B] q) { p, q = TopK(x, k) }, "
    inside += "else_branch = e () => (float[C,D] r, int64[C,D] s) { r, s = TopK(x, k) }>"
    check_refused(inside, 12, 9, f"k={k}", **{**given, "inputs": "float[3,4] x, bool c"})


@pytest.mark.parametrize(("axis", "gather", "out"), [("", 1, "3,K"), ("<axis=0>", 0, "K,4"), ("<axis=-1>", 1, "3,K")])
def test_a_run_time_k_takes_from_all_below_10(axis, gather, out):
    inside = axis.strip("<>") + ", " if axis else ""
    length = 3 if gather == 0 else 4
    after = f"""t1 = ConstantOfShape<value=[1]>(k)
        t2 = NonZero(t1)
        t3 = Squeeze<axes=[0]>(t2)
        t4, t5 = TopK<{inside}k={length}>(x)
        v = Gather<axis={gather}>(t4, t3)
        i = Gather<axis={gather}>(t5, t3)"""
    given = {**io(out=out), "inputs": "float[3,4] x, int64[1] k"}
    x = np.array([[1, 5, 5, 2], [0, -0.0, 3, 1], [9, 8, 7, 6]], np.float32)
    for k in (1, 2, 3):
        check(f"v, i = TopK{axis}(x, k)", 10, after, 9, feeds={"x": x, "k": np.array([k])}, **given)


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize(
    ("axis", "dims"), [(-1, "N"), (-1, "3,N"), (-1, "1,N"), (0, "N,4"), (1, "A,B,C"), (2, "A,B,C")]
)
@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_a_run_time_k_of_an_unknown_length_takes_rounds_below_10(kind, axis, dims, k):
    shape = [{"A": 2, "B": 3, "C": 4, "N": 3}.get(dim) or int(dim) for dim in dims.split(",")]
    values = [1, 5, 5, -np.inf, 0, -0.0, np.inf, np.inf, -np.inf, -2, 5]
    feeds = {"x": np.resize(values, shape).astype(np.float32 if kind == "float" else kind), "k": np.array([k])}
    out = ",".join("PQR"[: len(shape)])
    older = [7] if kind == "float" else []  # onnxruntime has no Min-6 of double
    given = {**io(kind, dims, out), "inputs": f"{kind}[{dims}] x, int64[1] k"}
    check_down(f"v, i = TopK<axis={axis}>(x, k)", 10, 9, 8, *older, feeds=feeds, **given)


def test_a_run_time_k_of_an_unknown_rank_is_refused_below_10():
    given = {"inputs": "float[6] x, int64[P] p, int64[1] k", "outputs": "float[A,B] v, int64[A,B] i"}
    check_refused("d = Reshape(x, p) v, i = TopK(d, k)", 10, 9, 'the rank of "d" is unknown', **given)


def test_an_overridable_k_is_not_constant():
    source = model(
        "v, i = TopK(x, k)",
        11,
        inputs="float[3,4] x, int64[1] k",
        outputs="float[3,K] v, int64[3,K] i",
        constants="int64[1] h = {2}",
    )
    source.graph.initializer[0].name = "k"
    made = convert.attempt(source, {"": 9}).model
    assert "ConstantOfShape" in [n.op_type for n in made.graph.node]


def test_largest_and_sorted_are_dropped_below_11():
    check("v, i = TopK<largest=1, sorted=1, axis=0>(x, k)", 11, "v, i = TopK<axis=0>(x, [2])", 10, **io(out="2,4"), **K)
    check("v, i = TopK<sorted=0>(x, k)", 11, "v, i = TopK(x, [2])", 10, run=False, **io(), **K)  # any order is right
    check_unchanged("v, i = TopK(x, k)", 10, 28, **io(), **K)
    check_unchanged("v, i = TopK<axis=-1>(x, k)", 28, 10, **io(), **K)


def test_a_negative_axis_is_counted_from_the_front_below_11():
    check("v, i = TopK<axis=-2>(x, k)", 11, "v, i = TopK<axis=0>(x, [2])", 10, **io(out="2,4"), **K)


@pytest.mark.parametrize("axis", ["", ", axis=0"])
def test_the_smallest_are_the_largest_of_negated_elements_below_11(axis):
    after = f"t1 = Neg(x)\nt2, i = TopK{'<axis=0>' if axis else ''}(t1, [2])\nv = Neg(t2)"
    x = np.array([[1, 5, 5, 2], [0, -0.0, 3, 1], [np.inf, 8, -np.inf, 6]], np.float32)
    check(f"v, i = TopK<largest=0{axis}>(x, k)", 11, after, 10, feeds={"x": x}, **io(out="2,4" if axis else "3,2"), **K)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("largest", [0, 1])
def test_integers_are_ordered_as_floats_below_11(kind, largest):
    made = convert.attempt(model(f"v, i = TopK<largest={largest}>(x, k)", 11, **io(kind, "6", "2"), **K), {"": 10})
    ends = np.iinfo(kind)
    x = np.array([3, ends.max, ends.max - 1, ends.min, ends.min + 1, ends.max], kind)
    v, i = evaluate(made.model, {"x": x})
    order = np.argsort(-x.astype(np.int64) if largest else x.astype(np.int64), kind="stable")[:2]
    np.testing.assert_array_equal(i, order)
    np.testing.assert_array_equal(v, x[order])
    assert v.dtype == np.dtype(kind)
    assert made.grade == "exact"


@pytest.mark.parametrize("kind", ["int64", "uint64"])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dims", ["3,2,4", "3,M,4", "A,B,C"])
@pytest.mark.parametrize("axis", [-1, 0, 1, -3])
def test_integers_of_64_bits_are_ordered_by_halves_below_11(kind, largest, dims, axis):
    ends = np.iinfo(kind)
    values = [ends.max, ends.min, 2**53 + 1, 2**53, 2**32, 2**32 - 1, 0, 5, 2**53 + 1, ends.max - 1, ends.min + 1]
    values += [] if kind == "uint64" else [-1, -(2**32), -(2**32) - 1, -(2**53) - 1]
    x = np.random.default_rng(7).choice(np.array(values, kind), (3, 2, 4))
    order = np.argsort(x, axis, kind="stable")
    if largest:
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    order = np.take(order, [0, 1], axis)
    check_computes(
        f"v, i = TopK<largest={largest}, axis={axis}>(x, k)", 11, 10 if kind == "uint64" else 8,
        [np.take_along_axis(x, order, axis), order], feeds={"x": x}, **io(kind, dims, "P,Q,R"), **K,
    )  # fmt: skip


def test_a_vector_of_64_bits_and_a_run_time_k():
    x, given = np.array([5, -(2**60), 2**60 + 1, 2**60, 5, 2**60 + 1]), {**io("int64", "6", "Q")}
    given["inputs"] += ", int64[1] k"
    for k in (1, 4, 6):
        order = np.array([2, 5, 3, 0, 4, 1])[:k]
        check_computes("v, i = TopK(x, k)", 11, 9, [x[order], order], feeds={"x": x, "k": np.array([k])}, **given)


def test_integers_of_64_bits_and_unknown_rank_are_refused_below_11():
    given = {"inputs": "int64[6] x, int64[P] p", "outputs": "int64[A,B] v, int64[A,B] i"}
    check_refused("d = Reshape(x, p) v, i = TopK(d, k)", 11, 10, 'the rank of "d" is unknown', **given, **K)


def test_bfloat16_is_ordered_as_float_below_24():
    check("v, i = TopK(x, k)", 24, "t1 = Cast<to=1>(x)\nt2, i = TopK(t1, [2])\nv = Cast<to=16>(t2)", 23,
          feeds={"x": array("bfloat16", np.arange(12).reshape(3, 4) % 5)}, **io("bfloat16"), **K)  # fmt: skip
    assert CODE["bfloat16"] == 16


@pytest.mark.newest  # an older onnxruntime ends the process where nothing is counted
@pytest.mark.parametrize("target", [9, 8, 7])
@pytest.mark.parametrize(
    ("dims", "shape"), [("3,4", (3, 4)), ("N,M", (3, 4)), ("3,0", (3, 0)), ("0,4", (0, 4)), ("N,M", (3, 0))]
)
@pytest.mark.parametrize("known", [True, False])
def test_none_of_the_largest(known, dims, shape, target):
    source = model(
        "v, i = TopK(x, k)", 10, inputs=f"float[{dims}] x" + ("" if known else ", int64[1] k"),
        outputs="float[A,B] v, int64[A,B] i", constants="int64[1] k = {0}" if known else "",
    )  # fmt: skip
    made = convert.attempt(source, {"": target}).model
    onnx.checker.check_model(made, full_check=True)
    feeds = {"x": np.ones(shape, np.float32)} | ({} if known else {"k": np.array([0])})
    values, indices = evaluate(made, feeds)
    assert (values.shape, values.dtype) == ((shape[0], 0), np.float32)
    assert (indices.shape, indices.dtype) == ((shape[0], 0), np.int64)

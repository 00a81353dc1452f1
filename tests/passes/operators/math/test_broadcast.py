"""Broadcasting: on request and from an axis on below 7, of many operands from 8 on."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators import legacy
from tests.support import check, check_refused, check_unchanged, evaluate, model, show

BINARY = ["Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"]
TRUTH = ["And", "Or", "Xor"]


def two(op, a, b, y):
    kind = "bool" if op in TRUTH else "int32" if op == "Equal" else "float"
    result = "bool" if op in (*TRUTH, "Equal", "Greater", "Less") else kind
    form = "{}[{}] {}, {}[{}] {}".format(kind, a, "a", kind, b, "b").replace("[]", "")
    return {"inputs": form, "outputs": f"{result}[{y}] y".replace("[]", "")}


def operands(op, a, b):
    rng = np.random.default_rng(1)
    dtype = bool if op in TRUTH else np.int32 if op == "Equal" else np.float32
    return {name: rng.integers(1, 4, shape).astype(dtype) for name, shape in (("a", a), ("b", b))}


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize(
    ("attributes", "b", "after"),
    [
        ("", (2, 3, 4, 5), "{}(a, b)"),
        ("<axis=1>", (2, 3, 4, 5), "{}(a, b)"),  # without broadcast the axis means nothing
        ("<broadcast=1>", (), "{}(a, b)"),
        ("<broadcast=1>", (1, 1), "{}(a, b)"),
        ("<broadcast=1>", (5,), "{}(a, b)"),
        ("<broadcast=1, axis=-1>", (4, 5), "{}(a, b)"),
        ("<broadcast=1, axis=2>", (4, 5), "{}(a, b)"),
        ("<broadcast=1, axis=0>", (1,), "{}(a, b)"),
        ("<broadcast=1, axis=1>", (3, 4), "t1 = Unsqueeze<axes=[2]>(b)\ny = {}(a, t1)"),
        ("<broadcast=1, axis=0>", (2,), "t1 = Unsqueeze<axes=[1, 2, 3]>(b)\ny = {}(a, t1)"),
        ("<broadcast=1, axis=1>", (3,), "t1 = Unsqueeze<axes=[1, 2]>(b)\ny = {}(a, t1)"),
    ],
)
def test_a_run_of_dimensions_gets_ones_behind_it_at_7(op, attributes, b, after):
    io = two(op, "2,3,4,5", ",".join(map(str, b)), "2,3,4,5")
    source = model(f"y = {op}{attributes}(a, b)", 6, **io)
    made = convert.attempt(source, {"": 7})
    assert show(made.model) == after.format(op) if "\n" in after else show(made.model) == "y = " + after.format(op)
    assert made.grade == "exact"
    feeds = operands(op, (2, 3, 4, 5), b)
    np.testing.assert_allclose(evaluate(made.model, feeds)[0], legacy.run(source, feeds)[0], rtol=1e-6)


def test_runs_need_ranks_at_7():
    check_refused(
        "y = Add<broadcast=1, axis=1>(a, b)", 6, 7, "rank", inputs="float[] a, float[3] b", outputs="float[] y"
    )
    check_refused(
        "y = Add<broadcast=1, axis=3>(a, b)", 6, 7, "axis=3 lies outside rank 3", **two("Add", "2,3,4", "3", "2,3,4")
    )
    unknown = {"inputs": "float[] a, float[] b", "outputs": "float[] y"}
    assert convert.attempt(model("y = Add<broadcast=1>(a, b)", 6, **unknown), {"": 7}).model


@pytest.mark.parametrize(
    ("a", "b", "attributes", "before"),
    [
        ((2, 3), (2, 3), "", ""),
        ((2, 3), (), "<broadcast=1>", ""),
        ((2, 3), (1, 1), "<broadcast=1>", ""),
        ((2, 3, 4, 5), (4, 5), "<broadcast=1>", ""),
        ((2, 3, 4, 5), (1, 5), "<broadcast=1>", "Squeeze<axes=[0]>(b)"),
        ((2, 3, 4, 5), (3, 4, 1), "<axis=1, broadcast=1>", "Squeeze<axes=[2]>(b)"),
        ((2, 3, 4, 5), (1, 3, 1, 1), "<axis=1, broadcast=1>", "Squeeze<axes=[0, 2, 3]>(b)"),
        ((2, 3, 4, 5), (2, 1, 1, 1), "<axis=0, broadcast=1>", "Squeeze<axes=[1, 2, 3]>(b)"),
        ((2, 1, 4), (2, 1, 4), "", ""),
        ((2, 3, 1, 5), (3, 1, 5), "<broadcast=1>", ""),
        ((2, 3, 4), (2, 1, 4), "", "Tile(b, const)"),
    ],
)
@pytest.mark.parametrize("op", BINARY)
def test_a_second_operand_that_fits_is_broadcast_on_request_below_7(op, a, b, attributes, before):
    y = ",".join(map(str, a))
    after = f"t1 = {before}\ny = {op}{attributes}(a, t1)" if before else f"y = {op}{attributes}(a, b)"
    source = model(f"y = {op}(a, b)", 7, **two(op, y, ",".join(map(str, b)), y))
    made = convert.attempt(source, {"": 6})
    assert show(made.model) == after
    feeds = operands(op, a, b)
    np.testing.assert_allclose(legacy.run(made.model, feeds)[0], evaluate(source, feeds)[0], rtol=1e-6)


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize(
    ("a", "b"), [((3,), (2, 3)), ((), (2, 3)), ((2, 1), (1, 3)), ((2, 1), (3,)), ((1, 1), (3,)), ((1,), ())]
)
def test_a_first_operand_that_is_smaller_is_swapped_or_repeated_below_7(op, a, b):
    y = np.broadcast_shapes(a, b)
    names = [",".join(map(str, dims)) for dims in (a, b, y)]
    source = model(f"y = {op}(a, b)", 7, **two(op, *names))
    made = convert.attempt(source, {"": 6})
    feeds = operands(op, a, b)
    np.testing.assert_allclose(legacy.run(made.model, feeds)[0], evaluate(source, feeds)[0], rtol=1e-6)
    assert made.grade == "exact"
    if a == (3,):
        swapped = {"Greater": "Less", "Less": "Greater"}.get(op, op)
        unsqueezed = f"t1 = Unsqueeze<axes=[0]>(a)\nt2 = Tile(t1, const)\ny = {op}(t2, b)"
        assert show(made.model) == (unsqueezed if op in ("Sub", "Div", "Pow") else f"y = {swapped}<broadcast=1>(b, a)")


def test_dimensions_known_at_run_time_are_repeated_below_7():
    source = model("y = Sub(a, b)", 7, **two("Sub", "1,3", "N,1", "N,3"))
    made = convert.attempt(source, {"": 6}).model
    feeds = operands("Sub", (1, 3), (4, 1))
    np.testing.assert_array_equal(legacy.run(made, feeds)[0], feeds["a"] - feeds["b"])
    symbolic = model("y = Add(a, b)", 7, **two("Add", "N,C,H", "C,1", "N,C,H"))
    assert (
        show(convert.attempt(symbolic, {"": 6}).model)
        == "t1 = Squeeze<axes=[1]>(b)\ny = Add<axis=1, broadcast=1>(a, t1)"
    )
    check_unchanged("y = Add(a, b)", 7, 6, **two("Add", "N,M", "N,M", "N,M"))


def test_dimensions_that_may_differ_are_refused_below_7():
    check_refused("y = Add(a, b)", 7, 6, "dimensions N and M may differ", **two("Add", "N,3", "M,3", "K,3"))
    check_refused("y = Add(a, b)", 7, 6, "dimensions N and 4 may differ", **two("Add", "3,N", "4", "3,4"))
    check_refused("y = Add(a, b)", 7, 6, "rank", inputs="float[] a, float[3] b", outputs="float[] y")


def test_a_scalar_takes_any_shape_below_7():
    source = model("y = Mul(a, b)", 7, inputs="float[] a, float b", outputs="float[] y")
    assert show(convert.attempt(source, {"": 6}).model) == "y = Mul<broadcast=1>(a, b)"


GEMM = {"inputs": "float[2,3] a, float[3,4] b, float[{}] c", "outputs": "float[2,4] y"}


def gemm(c):
    return {key: text.format(c).replace("[]", "") for key, text in GEMM.items()}


@pytest.mark.parametrize(("c", "after"), [
    ((2, 4), "y = Gemm<beta=0.5>(a, b, c)"), ((4,), "y = Gemm<beta=0.5, broadcast=1>(a, b, c)"),
    ((), "y = Gemm<beta=0.5, broadcast=1>(a, b, c)"), ((1, 1), "y = Gemm<beta=0.5, broadcast=1>(a, b, c)"),
    ((1, 4), "t1 = Squeeze<axes=[0]>(c)\ny = Gemm<beta=0.5, broadcast=1>(a, b, t1)"),
    ((2, 1), "t1 = Tile(c, const)\ny = Gemm<beta=0.5>(a, b, t1)"),
])  # fmt: skip
def test_an_addend_is_broadcast_on_request_below_7(c, after):
    source = model("y = Gemm<beta=0.5>(a, b, c)", 7, **gemm(",".join(map(str, c))))
    made = convert.attempt(source, {"": 6}).model
    assert show(made) == after
    feeds = {**operands("Add", (2, 3), (3, 4)), "c": np.arange(np.prod(c, dtype=int), dtype=np.float32).reshape(c)}
    np.testing.assert_array_equal(legacy.run(made, feeds)[0], evaluate(source, feeds)[0])
    back = convert.attempt(made, {"": 7}).model
    np.testing.assert_array_equal(evaluate(back, feeds)[0], evaluate(source, feeds)[0])


def test_symbolic_addends_below_7():
    io = {"inputs": "float[3,N] a, float[3,4] b, float[{}] c", "outputs": "float[N,4] y"}
    whole = {**io, "inputs": io["inputs"].format("N,4")}
    check_unchanged("y = Gemm<transA=1>(a, b, c)", 7, 6, **whole)
    check_refused("y = Gemm<transA=1>(a, b, c)", 7, 6, "[M, 4]", **{**io, "inputs": io["inputs"].format("M,4")})


@pytest.mark.parametrize(("x", "slope", "after"), [
    ((2, 3), (3,), "y = PRelu(x, s)"), ((2, 3, 4), (1,), "y = PRelu(x, s)"),
    ((2, 3, 4), (3,), "t1 = Unsqueeze<axes=[1]>(s)\ny = PRelu(x, t1)"),
    ((2, 4, 4, 4), (4,), "t1 = Unsqueeze<axes=[1, 2]>(s)\ny = PRelu(x, t1)"),
])  # fmt: skip
def test_slopes_were_per_channel_below_7(x, slope, after):
    dims = ",".join(map(str, x))
    io = {"inputs": f"float[{dims}] x, float[{slope[0]}] s", "outputs": f"float[{dims}] y"}
    source = model("y = PRelu(x, s)", 6, **io)
    made = convert.attempt(source, {"": 7}).model
    assert show(made) == after
    feeds = {
        "x": np.random.default_rng(2).normal(size=x).astype(np.float32),
        "s": np.arange(1, 1 + slope[0], dtype=np.float32),
    }
    np.testing.assert_array_equal(evaluate(made, feeds)[0], legacy.run(source, feeds)[0])


def test_slopes_of_unknown_ranks_are_refused():
    check_refused("y = PRelu(x, s)", 6, 7, "rank", inputs="float[] x, float[3] s", outputs="float[] y")
    check_refused("y = PRelu(x, s)", 7, 6, "rank", inputs="float[] x, float[3] s", outputs="float[] y")


FLAT = "t1 = Reshape(x, const)\nt2 = Reshape(s, const_1)\nt3 = PRelu(t1, t2)\ny = Reshape(t3, const_3)"


@pytest.mark.parametrize(("x", "slope", "after"), [
    ((2, 3), (3,), "y = PRelu(x, s)"), ((2, 3, 4), (1,), "y = PRelu(x, s)"), ((2, 3, 4), (), "t1 = Reshape(s, const)\ny = PRelu(x, t1)"),
    ((2, 3, 4), (3, 1), "t1 = Reshape(s, const)\ny = PRelu(x, t1)"), ((2, 3, 4), (1, 1, 1), "t1 = Reshape(s, const)\ny = PRelu(x, t1)"),
    ((2, 3, 4), (4,), FLAT), ((2, 3, 4), (3, 4), FLAT), ((3,), (3,), FLAT.replace("const_3", "const_1")), ((2, 3, 4), (1, 3, 4), FLAT),
])  # fmt: skip
def test_slopes_become_a_vector_below_7(x, slope, after):
    dims, s = (",".join(map(str, d)) for d in (x, slope))
    io = {"inputs": f"float[{dims}] x, float[{s}] s".replace("[]", ""), "outputs": f"float[{dims}] y"}
    source = model("y = PRelu(x, s)", 7, **io)
    made = convert.attempt(source, {"": 6}).model
    assert show(made) == after
    feeds = {
        "x": np.random.default_rng(2).normal(size=x).astype(np.float32),
        "s": np.arange(1, 1 + np.prod(slope, dtype=int), dtype=np.float32).reshape(slope),
    }
    np.testing.assert_array_equal(legacy.run(made, feeds)[0], evaluate(source, feeds)[0])


@pytest.mark.parametrize(("dims", "shape"), [("N,0,4", (2, 0, 4)), ("2,M,4", (2, 0, 4)), ("N,3,4", (0, 3, 4))])
def test_axes_before_the_slopes_may_be_empty_below_7(dims, shape):
    made = convert.attempt(
        model("y = PRelu(x, s)", 7, inputs=f"float[{dims}] x, float[4] s", outputs="float[A,B,C] y"), {"": 6}
    ).model
    assert made is not None
    assert legacy.run(made, {"x": np.zeros(shape, np.float32), "s": np.ones(4, np.float32)})[0].shape == shape


def test_slopes_across_channels_are_refused_below_7():
    check_refused(
        "y = PRelu(x, s)", 7, 6, "per channel", inputs="float[2,3,4] x, float[2,1,1] s", outputs="float[2,3,4] y"
    )


MANY = {"inputs": "float[2,3] a, float[3] b, float c", "outputs": "float[2,3] y"}


def test_sums_of_different_shapes_are_added_in_turn_below_8():
    check("y = Sum(a, b, c)", 8, "t1 = Add(a, b)\ny = Add(t1, c)", 7, grade="close", **MANY)
    check("y = Sum(a, b)", 8, "y = Add(a, b)", 7, **MANY)
    check("y = Mean(a, b)", 8, "t1 = Add(a, b)\ny = Div(t1, const)", 7, grade="close", **MANY)
    after = "t1 = Add(a, b)\nt2 = Add(t1, c)\ny = Div(t2, const)"
    check("y = Mean(a, b, c)", 8, after, 7, grade="close", rtol=1e-6, **MANY)


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
def test_operands_of_one_shape_stay(op):
    one = {"inputs": "float[N,3] a, float[N,3] b", "outputs": "float[N,3] y"}
    check_unchanged(f"y = {op}(a, b)", 8, 6, **one)
    check_unchanged(f"y = {op}(a, b)", 6, 28, **one)
    check_unchanged(f"y = {op}(a)", 8, 6, **{**one, "inputs": "float[N,3] a"})


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extremes_are_taken_of_operands_made_of_one_shape_below_8(op):
    check(f"y = {op}(a, b)", 8, f"t1 = Pow(a, const)\nt2 = Mul(b, t1)\ny = {op}(a, t2)", 7, **MANY)
    check(
        f"y = {op}(b, a, c)", 8, f"t1 = Pow(a, const)\nt2 = Mul(b, t1)\nt3 = Mul(c, t1)\ny = {op}(t2, a, t3)", 7, **MANY
    )
    both = {"inputs": "float[2,1] a, float[1,3] b", "outputs": "float[2,3] y"}
    after = (
        f"t1 = Pow(a, const)\nt2 = Pow(b, const)\nt3 = Mul(t1, t2)\nt4 = Mul(a, t3)\nt5 = Mul(b, t3)\ny = {op}(t4, t5)"
    )
    special = {"a": np.array([[np.nan], [np.inf]], np.float32), "b": np.array([[-np.inf, 0.0, 1.0]], np.float32)}
    check(f"y = {op}(a, b)", 8, after, 7, feeds=special, **both)
    unknown = {"inputs": "float[N] a, float[M] b", "outputs": "float[K] y"}
    check(
        f"y = {op}(a, b)",
        8,
        after,
        7,
        feeds={"a": np.array([1, 5, 2], np.float32), "b": np.array([3], np.float32)},
        **unknown,
    )

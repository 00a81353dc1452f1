"""The reduce family: where axes stand, and types that come and go."""

import numpy as np
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.on_request import INF, computed, same_bits
from tests.passes.operators.on_request import X as SPECIAL
from tests.runtime import Runtime
from tests.support import check, check_refused, check_unchanged, check_values, evaluate, model

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}
AXES_SINCE_18 = [
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSumSquare",
]  # fmt: skip


OPS = [*AXES_SINCE_18, "ReduceSum"]


def introduced(op):
    """The opset at which axes became an input."""
    return 13 if op == "ReduceSum" else 18


@pytest.mark.parametrize("op", OPS)
def test_axes_become_an_input(op):
    newer = introduced(op)
    check(f"y = {op}<axes=[1]>(x)", newer - 1, f"y = {op}(x, [1])", newer, **ROWS)


@pytest.mark.parametrize("op", OPS)
def test_constant_axes_become_an_attribute(op):
    newer = introduced(op)
    held = {"constants": "int64[1] a = {1}", **ROWS}
    check(f"y = {op}(x, a)", newer, f"y = {op}<axes=[1]>(x)", newer - 1, **held)


@pytest.mark.parametrize("made", ["Constant<value_ints=[1]>()", "Identity(b)", "Unsqueeze(c, zero)"])
def test_constant_axes_are_found_where_they_are_made(made):
    held = "int64[1] b = {1}, int64 c = {1}, int64[1] zero = {0}"
    check(f"a = {made} y = ReduceMax(x, a)", 18, "y = ReduceMax<axes=[1]>(x)", 17, constants=held, **ROWS)


def test_other_attributes_survive_the_move():
    io = {"inputs": "float[N,3] x", "outputs": "float[N] y"}
    check("y = ReduceL1<axes=[-1], keepdims=0>(x)", 13, "y = ReduceL1<keepdims=0>(x, [-1])", 18, **io)


def test_nothing_to_move():
    check_unchanged("y = ReduceL1(x)", 13, 28, **ROWS)
    check_unchanged("y = ReduceL1<axes=[1], keepdims=1>(x)", 17, 11, **ROWS)


def test_an_empty_list_below_18_means_all_axes():
    check(
        "y = ReduceMax<axes: ints = []>(x)", 13, "y = ReduceMax(x)", 18, inputs="float[2,3] x", outputs="float[1,1] y"
    )


SINGLE = {
    "ReduceL1": "y = Abs(x)",
    "ReduceL2": "y = Abs(x)",
    "ReduceLogSum": "y = Log(x)",
    "ReduceLogSumExp": "y = Add(x, 0.0)",
    "ReduceSumSquare": "y = Mul(x, x)",
}


@pytest.mark.newest
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("axes", ["", ", a"])
def test_noop_with_no_axes_leaves_what_the_operator_does_to_one_element(op, axes):
    newer = introduced(op)
    io = {"inputs": "float[N,3] x", "outputs": "float[N,3] y", "constants": "int64[0] a = {}"}
    before = f"y = {op}<noop_with_empty_axes=1>(x{axes})"
    grade = "close" if op == "ReduceL2" else "exact"  # squares may be infinite
    check(before, newer, SINGLE.get(op, "y = Identity(x)"), newer - 1, grade=grade, **io)


@pytest.mark.parametrize("target", [17, 7])
def test_the_logarithm_of_a_single_exponential_is_no_negative_zero(target):
    of = model("y = ReduceLogSumExp<noop_with_empty_axes=1>(x)", 18, inputs="float[3] x", outputs="float[3] y")
    result = convert.attempt(of, {"": target}).model
    assert result is not None
    (y,) = Runtime(result).run({"x": np.array([-0.0, 0, -1], np.float32)})
    assert np.signbit(y).tolist() == [False, False, True]
    whole = model("y = ReduceLogSumExp<noop_with_empty_axes=1>(x)", 18, inputs="int64[3] x", outputs="int64[3] y")
    result = convert.attempt(whole, {"": target}).model
    assert result is not None
    assert [node.op_type for node in result.graph.node] == ["Identity"]


@pytest.mark.newest  # older kernels run no such call
def test_the_logarithm_of_a_single_exponential_is_none_in_runtimes():
    of = model("y = ReduceLogSumExp<noop_with_empty_axes=1>(x)", 18, inputs="float[3] x", outputs="float[3] y")
    (y,) = Runtime(of).run({"x": np.array([-0.0, 0, -1], np.float32)})
    assert np.signbit(y).tolist() == [False, False, True]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("axes", ["", ", a", ', ""'])
def test_without_noop_no_axes_mean_all(op, axes):
    newer = introduced(op)
    io = {"inputs": "float[2,3] x", "outputs": "float[1,1] y", "constants": "int64[0] a = {}"}
    before = f"y = {op}<noop_with_empty_axes=0>(x{axes})"
    check(before, newer, f"y = {op}(x)", newer - 1, **io)


def test_noop_of_unsigned_integers_is_no_absolute_value():
    io = {"inputs": "uint64[3] x", "outputs": "uint64[3] y"}
    check("y = ReduceL1<noop_with_empty_axes=1>(x)", 18, "y = Identity(x)", 17, run=False, **io)  # no kernel anywhere
    after = "t1 = Cast<to=11>(x)\nt2 = Log(t1)\ny = Cast<to=7>(t2)"
    io = {"inputs": "int64[3] x", "outputs": "int64[3] y"}
    check("y = ReduceLogSum<noop_with_empty_axes=1>(x)", 18, after, 17, run=False, **io)  # log(0) is no integer


POST = {
    "ReduceL1": lambda x, **k: np.abs(x).sum(**k),
    "ReduceL2": lambda x, **k: np.sqrt((x * x).sum(**k)),
    "ReduceLogSum": lambda x, **k: np.log(x.sum(**k)),
    "ReduceLogSumExp": lambda x, **k: np.log(np.exp(x).sum(**k)),
    "ReduceMax": lambda x, **k: x.max(**k),
    "ReduceMean": lambda x, **k: x.mean(**k),
    "ReduceMin": lambda x, **k: x.min(**k),
    "ReduceProd": lambda x, **k: x.prod(**k),
    "ReduceSum": lambda x, **k: x.sum(**k),
    "ReduceSumSquare": lambda x, **k: (x * x).sum(**k),
}
X = np.random.default_rng(0).uniform(0.5, 2, (2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("target", [17, 12, 10, 7])
def test_run_time_axes(op, keepdims, noop, target):
    """Judged by numpy in float64: one axis, several, negative, twice the same, all, none."""
    newer = introduced(op)
    if target >= newer:
        target = newer - 1
    source = model(
        f"y = {op}<keepdims={keepdims}, noop_with_empty_axes={noop}>(x, a) z = Shape(y) f = Reshape(y, flat)",
        newer, inputs="float[N,3,4] x, int64[k] a", outputs="float[L] f, int64[R] z", constants="int64[1] flat = {-1}",
    )  # fmt: skip
    result = convert.attempt(source, {"": target})
    assert not result.refusals, "\n".join(map(str, result.refusals))
    onnx.checker.check_model(result.model, full_check=True)
    for axes in ([1], [0, 2], [-1], [1, 1], [0, 1, 2], [-3, 2], []):
        feeds = {"x": X, "a": np.array(axes, np.int64)}
        values, shape = evaluate(result.model, feeds)
        over = tuple({axis % 3 for axis in axes}) if axes or noop else (0, 1, 2)
        expected = POST[op](X.astype(np.float64), axis=over, keepdims=bool(keepdims))
        assert shape.tolist() == list(expected.shape)
        np.testing.assert_allclose(values, expected.reshape(-1), rtol=2e-6)


@pytest.mark.parametrize(("op", "grade"), [("ReduceMax", "exact"), ("ReduceProd", "close"), ("ReduceL2", "close")])
def test_run_time_axes_are_graded(op, grade):
    source = model(f"y = {op}(x, a)", 18, inputs="float[2,3] x, int64[1] a", outputs="float[A,B] y")
    assert convert.attempt(source, {"": 17}).grade == grade


def test_run_time_axes_of_a_square_sum_go_to_the_sum():
    io = {"inputs": "float[N,3] x, int64[1] a", "outputs": "float[A,B] y"}
    after = "t1 = Mul(x, x)\nt2 = ReduceSum<keepdims=1, noop_with_empty_axes=0>(t1, a)\ny = Sqrt(t2)"
    check("y = ReduceL2(x, a)", 18, after, 13, grade="close", feeds={"a": np.array([1])}, rtol=1e-6, **io)


def test_run_time_axes_of_half_floats_are_summed_in_float():
    source = model("y = ReduceL2(x, a)", 18, inputs="float16[2,3] x, int64[1] a", outputs="float16[A,B] y")
    result = convert.attempt(source, {"": 13}).model
    assert [n.op_type for n in result.graph.node] == ["Cast", "Mul", "ReduceSum", "Sqrt", "Cast"]
    feeds = {"x": np.full((2, 3), 300, np.float16), "a": np.array([1])}
    np.testing.assert_array_equal(evaluate(result, feeds)[0], np.full((2, 1), 519.5, np.float16))


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceLogSumExp", "ReduceProd"])
def test_run_time_axes_of_an_unknown_rank_are_refused(op):
    io = {"inputs": "float[] x, int64[1] a", "outputs": "float[] y"}
    check_refused(f"y = {op}(x, a)", 18, 17, 'the rank of "x" is unknown', **io)


def test_run_time_axes_of_a_scalar():
    source = model("y = ReduceMax(x, a)", 18, inputs="float x, int64[k] a", outputs="float y")
    result = convert.attempt(source, {"": 17}).model
    assert evaluate(result, {"x": np.float32(3), "a": np.zeros(0, np.int64)})[0] == 3


@pytest.mark.parametrize("elem", ["int32", "int64"])
def test_run_time_axes_of_integer_means_truncate(elem):
    source = model("y = ReduceMean(x, a)", 18, inputs=f"{elem}[2,3] x, int64[1] a", outputs=f"{elem}[A,B] y")
    result = convert.attempt(source, {"": 13}).model
    x = np.array([[1, 2, 5], [-1, -2, -5]], elem)
    np.testing.assert_array_equal(evaluate(result, {"x": x, "a": np.array([1])})[0], [[2], [-2]])


def test_negative_axes_are_counted_from_the_front():
    io = {"inputs": "float[A,B,C] x", "outputs": "float[A,D,E] y"}
    check("y = ReduceL1<axes=[-1, 1]>(x)", 11, "y = ReduceL1<axes=[2, 1]>(x)", 10, **io)
    check_unchanged("y = ReduceL1<axes=[2, 1]>(x)", 11, 7, **io)
    check("y = ArgMax<axis=-1>(x)", 11, "y = ArgMax<axis=2>(x)", 10, inputs=io["inputs"], outputs="int64[A,B,D] y")


def test_negative_axes_of_an_unknown_rank_are_refused():
    io = {"inputs": "float[] x", "outputs": "float[] y"}
    check_refused("y = ReduceL1<axes=[-1]>(x)", 11, 10, 'the rank of "x" is unknown', **io)


def test_axes_out_of_range_are_refused():
    check_refused("y = ReduceL1<axes=[-3]>(x)", 11, 10, "axis -3 is out of range for rank 2", **ROWS)


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_bool_goes_through_uint8(op):
    io = {"inputs": "bool[2,3] x", "outputs": "bool[2,1] y", "constants": "int64[1] a = {1}"}
    after = f"t1 = Cast<to=2>(x)\nt2 = {op}(t1, [1])\ny = Cast<to=9>(t2)"
    check(f"y = {op}(x, a)", 20, after, 18, **io)


@pytest.mark.newest
@pytest.mark.parametrize(("op", "expected"), [("ReduceMax", False), ("ReduceMin", True)])
def test_an_empty_reduction_of_bool_keeps_its_limit(op, expected):
    io = {"inputs": "bool[2,0] x", "outputs": "bool[2,1] y", "constants": "int64[1] a = {1}"}
    result = convert.attempt(model(f"y = {op}(x, a)", 20, **io), {"": 18}).model
    np.testing.assert_array_equal(evaluate(result, {"x": np.zeros((2, 0), bool)})[0], [[expected]] * 2)


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize(
    ("kind", "dims", "carrier"), [("uint8", "N,3", 6), ("int8", "2,3", 6), ("int8", "N,3", 1), ("int8", "2,0", 1)]
)
def test_small_integers_go_through_wider_types(op, kind, dims, carrier):
    io = {"inputs": f"{kind}[{dims}] x", "outputs": f"{kind}[A,1] y"}
    source = model(f"y = {op}<axes=[1]>(x)", 12, **io)
    result = convert.attempt(source, {"": 11})
    assert result.grade == "exact"
    assert result.model.graph.node[0].attribute[0].i == carrier
    shape = tuple(int(d) if d.isdigit() else 4 for d in dims.split(","))
    x = np.resize(np.array([0, 1, 100, 127, -128, -1, 5]), shape).astype(kind)
    limit = np.iinfo(kind).min if op == "ReduceMax" else np.iinfo(kind).max
    expected = (np.max if op == "ReduceMax" else np.min)(x, axis=1, keepdims=True, initial=limit)
    np.testing.assert_array_equal(evaluate(result.model, {"x": x})[0], expected)


def test_logarithms_of_integers_are_computed_in_double_from_28():
    io = {"inputs": "int32[2,3] x", "outputs": "int32[2,1] y", "constants": "int64[1] a = {1}"}
    after = "t1 = Cast<to=11>(x)\nt2 = ReduceLogSum(t1, [1])\ny = Cast<to=6>(t2)"
    feeds = {"x": np.array([[1, 20, 3], [40, 5, 6]], np.int32)}
    check("y = ReduceLogSum(x, a)", 18, after, 28, grade="close", feeds=feeds, **io)


@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp"])
def test_logarithms_of_floats_stay_at_28(op):
    for kind in ("float", "double"):
        io = {"inputs": f"{kind}[2,3] x", "outputs": f"{kind}[2,1] y", "constants": "int64[1] a = {1}"}
        check_unchanged(f"y = {op}(x, a)", 28, 18, **io)
        check_unchanged(f"y = {op}(x, a)", 18, 28, **io)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[0], [1], [0, 1], [-1, 0], [], None])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("opset", [13, 18])
def test_sums_of_exponentials_of_integers_lose_nothing_at_28(kind, keepdims, axes, held, opset):
    if opset == 13 and not held:
        return
    inputs, constants = f"{kind}[P,Q] x", ""
    if opset == 13 or axes is None:
        call = f"ReduceLogSumExp<{f'axes={axes}, ' if axes else ''}keepdims={keepdims}>(x)"
    else:
        call = f"ReduceLogSumExp<keepdims={keepdims}>(x, a)"
        values = ", ".join(map(str, axes))
        inputs, constants = (inputs, f"int64[{len(axes)}] a = {{{values}}}") if held else (f"{inputs}, int64[K] a", "")
    rank = 2 if keepdims else 2 - len(axes or (0, 1))
    outputs = f"{kind}[{','.join('ST'[:rank])}] y" if rank else f"{kind} y"
    source = model(f"y = {call}", opset, inputs=inputs, outputs=outputs, constants=constants)
    result = convert.attempt(source, {"": 28})
    assert result.grade == "close"
    for rows in ([[2]], [[5, 1], [20, 2]], [[0, 0], [0, 0]], [[7], [0]], [[-3, -40]], [[40, 5, 6]]):
        feeds = {"x": np.array(rows, kind), "a": np.array(axes or (), np.int64)}
        fed = {value.name: feeds[value.name] for value in source.graph.input}
        (right,), (actual,) = evaluate(source, fed), evaluate(result.model, fed)
        np.testing.assert_array_equal(actual, right)


def test_bfloat16_does_not_exist_below_13():
    io = {"inputs": "bfloat16[2,3] x", "outputs": "bfloat16[2,1] y"}
    check_refused("y = ReduceL1<axes=[1]>(x)", 13, 12, "tensor(bfloat16) does not exist at opset 12", **io)


def test_run_time_axes_inside_a_branch_and_a_function():
    branch = "y = If (c) <then_branch = t () => (float[A,B] p) { p = ReduceMax(x, a) }, else_branch = e () => (float[A,B] q) { q = Identity(x) }>"
    source = model(branch, 18, inputs="float[2,3] x, int64[1] a, bool c", outputs="float[A,B] y")
    feeds = {"a": np.array([1]), "c": np.array(True)}
    for target in (17, 11, 10, 7):
        result = convert.attempt(source, {"": target})
        assert not result.refusals, "\n".join(map(str, result.refusals))
        check_values(source, result.model, feeds, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("target", [17, 12])
@pytest.mark.parametrize("axes", [[0], [1], [0, 1], [-1, 0], []])
def test_logarithms_of_integers_are_cut_once_over_axes_known_at_run_time(axes, target, kind):
    source = model("y = ReduceLogSumExp(x, a)", 18, inputs=f"{kind}[P,Q] x, int64[K] a", outputs=f"{kind}[S,T] y")
    made = convert.attempt(source, {"": target}).model
    for rows in ([[0, 0], [0, 0]], [[3]], [[7], [0]], [[20, 1], [1, 1]], [[1, 2, 3]]):
        x, over = np.array(rows, np.float64), tuple(axes) or None
        expected = np.trunc(np.log(np.exp(x).sum(axis=over, keepdims=True)) + 1e-12)
        (actual,) = evaluate(made, {"x": x.astype(kind), "a": np.array(axes, np.int64)})
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_minima_along_axes(dtype, opset):
    least = np.iinfo(dtype).min if np.dtype(dtype).kind == "i" else -INF
    x = np.array([[3, least, 7], [5, 5, 6]], dtype)
    call = "ReduceMin<keepdims = 0, axes = [1]>(x)" if opset < 18 else "ReduceMin<keepdims = 0>(x, a)"
    actual = computed(call, x, opset=opset, constants="" if opset < 18 else "int64[1] a = {1}", rank=1)
    same_bits(actual, x.min(axis=1))
    same_bits(computed("ReduceMin(x)", x, opset=opset), x.min(keepdims=True))


def test_no_axes_may_mean_none():
    call = "ReduceMin<noop_with_empty_axes = 1>(x)"
    same_bits(computed(call, SPECIAL, opset=18), SPECIAL)


@pytest.mark.parametrize("axis", [2, -3])
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin", "ReduceMean"])
def test_an_axis_of_which_inference_said_nothing_is_refused_where_it_does(op, axis):
    body, io = f"t = Cast<to=1>(x) y = {op}<axes=[{axis}]>(t)", {"inputs": "float[2,3] x", "outputs": "float[A,B] y"}
    silent = 10 if op == "ReduceMean" else 11
    check_refused(body, silent, silent + 1, f"axis {axis} is out of range for rank 2", **io)
    check_refused(body, silent, 18, f"axis {axis} is out of range for rank 2", **io)
    check_unchanged(body.replace(f"[{axis}]", "[-1]"), silent, silent + 1, **io)

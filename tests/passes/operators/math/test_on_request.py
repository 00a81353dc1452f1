"""Elementwise operators, logic and minima that a backend lacks, judged by numpy; the signs of zeros count."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.test_on_request import inlined
from tests.support import evaluate, model

INF, NAN = np.inf, np.nan
X = np.array([0.0, -0.0, 1.5, -2.25, 0.5, -0.5, INF, -INF, NAN, 3e4, -3e4, 1e-7], np.float32)
Y = np.array([1.0, -1.0, -1.5, 2.25, 0.5, -0.75, 3.0, 3.0, 1.0, NAN, INF, -INF], np.float32)
INTS = np.array([0, 1, -1, 127, -128, 5])
TRUTHS = [np.array([False, False, True, True]), np.array([False, True, False, True])]


def computed(call, *feeds, opset=22, constants="", grade="exact", kind=None, rank=None):
    names = {"float32": "float", "float64": "double"}
    held = dict(zip("xyz", feeds, strict=False))
    inputs = ", ".join(
        f"{names.get(v.dtype.name, v.dtype.name)}[{','.join(map(str, v.shape))}] {name}" for name, v in held.items()
    )
    out = kind or names.get(feeds[0].dtype.name, feeds[0].dtype.name)
    dims = ",".join("ABC"[: max(v.ndim for v in feeds) if rank is None else rank])
    outputs = f"{out}[{dims}] r" if dims else f"{out} r"
    inputs = inputs.replace("[]", "")
    of = model(f"r = {call}", opset, inputs=inputs, outputs=outputs, constants=constants)
    op = of.graph.node[0].op_type
    assert convert.attempt(of, {"": opset}, ops=[("", op)]).grade == grade
    return evaluate(inlined(of, op), held)[0]


def same_bits(actual, expected):
    expected = np.asarray(expected)
    np.testing.assert_array_equal(actual, expected, strict=True)  # NaN equals NaN
    held = ~np.isnan(expected) if expected.dtype.kind == "f" else slice(0)
    np.testing.assert_array_equal(np.signbit(actual[held]), np.signbit(expected[held]))


@pytest.mark.parametrize("opset", [13, 22])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    ("call", "expected"),
    [("Abs(x)", np.abs), ("Neg(x)", np.negative), ("Ceil(x)", np.ceil), ("Reciprocal(x)", lambda x: 1 / x)],
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
    same_bits(computed("Ceil(x)", np.array(-0.5, np.float32)), np.array(-0.0, np.float32))


def test_tangents():
    x = np.array([0.0, -0.0, 1.0, -1.5, 1.5707, 100.0, INF, NAN], np.float32)
    with np.errstate(invalid="ignore"):
        expected = np.tan(x.astype(np.float64))
    np.testing.assert_allclose(computed("Tan(x)", x, grade="close"), expected, rtol=3e-6)


def test_sums_and_means():
    a, b, c = np.float32([[1, 2, 3]]), np.float32([[4], [-5]]), np.float32([[INF, NAN, 0.25]])
    same_bits(computed("Sum(x, y)", a, b), a + b)
    same_bits(computed("Sum(x)", X), X)
    same_bits(computed("Sum(x, y, z)", a, b, c, grade="close"), a + b + c)
    same_bits(computed("Mean(x, y)", a, b, grade="close"), (a + b) / 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64])
def test_minima(dtype):
    if np.dtype(dtype).kind == "f":
        x, y = X.astype(dtype), Y.astype(dtype)
    else:
        info = np.iinfo(dtype)
        x, y = np.array([[info.min, info.max, 3, 0]], dtype), np.array([[info.max], [info.min], [2]], dtype)
    np.testing.assert_array_equal(computed("Min(x, y)", x, y), np.minimum(x, y), strict=True)
    np.testing.assert_array_equal(computed("Min(x)", x), x, strict=True)


@pytest.mark.parametrize("opset", [13, 22])
@pytest.mark.parametrize(("op", "of"), [("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)])
def test_logic_of_two(op, of, opset):
    a, b = TRUTHS[0][:, None], TRUTHS[1][None]
    same_bits(computed(f"{op}(x, y)", a, b, opset=opset), of(a, b))


def test_not():
    same_bits(computed("Not(x)", TRUTHS[1]), ~TRUTHS[1])


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_places_of_minima(dtype, last):
    x = np.array([[3, -2, -2, 5], [np.iinfo(np.int32).min if dtype == np.int32 else -INF, 0, 1, 1]], dtype)
    expected = np.array([[2 if last else 1], [0]])
    same_bits(computed(f"ArgMin<axis = -1, select_last_index = {last}>(x)", x, kind="int64"), expected)
    flat = np.array([1, 1, 1, 1]) * [1, 0, 0, 1]
    same_bits(computed("ArgMin<keepdims = 0>(x)", x, kind="int64", rank=1), flat)


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
    same_bits(computed(call, X, opset=18), X)


def test_inside_a_branch():
    branches = "then_branch = g () => (a) { a = Abs(x) }, else_branch = h () => (b) { b = Neg(x) }"
    of = model(f"r = If(q)<{branches}>", 16, inputs="float[12] x, bool q", outputs="float[12] r")
    after = convert.attempt(of, {"": 16}, ops=[("", "Abs"), ("", "Neg")]).model
    assert after is not None
    made = {node.op_type for a in after.graph.node[-1].attribute for node in a.g.node}
    assert made == {"Greater", "Sub", "Where", "Mul"}
    same_bits(evaluate(after, {"x": X, "q": np.array(True)})[0], np.abs(X))
    same_bits(evaluate(after, {"x": X, "q": np.array(False)})[0], np.negative(X))

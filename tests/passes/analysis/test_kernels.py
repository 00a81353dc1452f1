"""What operators make of constants: what onnxruntime makes of them, or nothing where engines may differ."""

from functools import cache

import ml_dtypes
import numpy as np
import onnx
import onnx.helper
import onnx.parser
import pytest
from opshift.passes.analysis import kernels
from opshift.passes.model.attributes import attribute_value

from opshift.verification.engines import OnnxRuntime

HELD = {
    "f": np.array([[0.1, -1.5, 3.25], [2.5, -0.5, 1e-3]], np.float32),
    "g": np.array([[2.0, -1.0, 0.5]], np.float32),
    "q": np.array([[3.0, 1.0, 2.0], [0.25, 4.0, 9.0]], np.float32),
    "d": np.array([0.1, -1.5, 3.25], np.float64),
    "h": np.array([0.1, -1.5, 2048.0], np.float16),
    "nan": np.array([np.nan, 1.0], np.float32),
    "inf": np.array([np.inf, 1.0], np.float32),
    "zeros": np.array([0.0, -0.0], np.float32),
    "i": np.array([[7, -7, 7], [2, 0, -8]], np.int64),
    "j": np.array([[2, 2, -3], [5, 1, 3]], np.int64),
    "i32": np.array([5, -5, 3], np.int32),
    "ends": np.array([2**63 - 1, -(2**63)], np.int64),
    "u8": np.array([200, 3, 0], np.uint8),
    "c": np.array([[True, False, True], [False, False, True]]),
    "e": np.array([[True, True, False], [False, True, True]]),
    "s": np.array(["x", "y"], object),
    "cube": np.arange(24, dtype=np.int64).reshape(2, 3, 4),
    "square": np.arange(9, dtype=np.float32).reshape(3, 3),
    "thin": np.ones((1, 2, 1), np.float32),
    "none": np.zeros((0, 3), np.float32),
    "lone": np.array(7, np.int64),
    "big": np.array(1 << 40, np.int64),
    "minus": np.array(-2, np.int64),
    "one": np.array(1, np.int64),
    "half": np.array(0.5, np.float32),
    **{f"v{'_'.join(map(str, v)).replace('-', 'm')}": np.array(v, np.int64) for v in (
        [0], [1], [2], [3], [-1], [-2], [-3], [-9], [9], [0, 1], [1, 0], [0, -1], [1, 2], [2, 1], [2, 3], [3, 2], [-1, -2],
        [4, 1], [1, 1], [3, -1], [1, 1, 2], [2, 1, 1], [0, 2, 2], [2, 2, 3], [-1, 0, 1], [-1, 0, 4],
    )},
    "vnone": np.zeros(0, np.int64),
    "at": np.array([[0, 1, 0], [1, 1, 1]], np.int64),
    "far": np.array([[0, 2, 0]], np.int64),
    "below": np.array([[0, -1, 0]], np.int64),
}  # fmt: skip

EXACT = """
Abs(f) Abs(i) Add(f, g) Add(i, j) Ceil(f) Div(f, g) Div(i, j) Floor(f) Max(f, q) Max(i, j, v2) Min(f, q, g) Min(i, j) Mul(f, g)
Neg(f) Neg(i) Reciprocal(f) Round(f) Sqrt(q) Sub(f, g) Sub(i, j) Add(h, h) Mul(h, h) Max(inf, half)
And(c, e) Or(c, e) Xor(c, e) Not(c) Equal(f, f) Equal(i, j) Equal(c, e) Greater(i, j) Greater(f, q) GreaterOrEqual(i, i)
GreaterOrEqual(f, q) Less(i, j) Less(nan, nan) LessOrEqual(i, i) LessOrEqual(f, q) IsNaN(nan)
Cast<to=1>(i) Cast<to=7>(u8) Cast<to=7>(f) Cast<to=9>(i) Cast<to=9>(f) Cast<to=10>(f) Cast<to=11>(f) Cast<to=2>(c)
Cast<to=1>(h) Cast<to=6>(q) Cast<to=2>(i)
Concat<axis=0>(i, j) Concat<axis=1>(i, j) Concat<axis=-1>(i, j) Concat<axis=0>(s, s)
ConstantOfShape(v2_3) ConstantOfShape<value=int32[1] {4}>(v2) ConstantOfShape(vnone)
Expand(v3, v2_2_3) Expand(g, v2_1) Expand(thin, v2_1_1)
Flatten(cube) Flatten<axis=0>(cube) Flatten<axis=2>(cube) Flatten<axis=3>(cube)
Gather(i, v1) Gather<axis=1>(i, v0_m1) Gather<axis=-1>(i, vm3) Gather(s, v1_0) Gather<axis=1>(cube, at) Gather(i, one)
GatherElements(i, at) GatherElements<axis=1>(i, at) GatherElements<axis=-1>(i, at)
Mod(i, j) Mod<fmod=1>(i, j) Mod(i32, i32) NonZero(i) NonZero(c) Range(one, lone, one) Range(lone, minus, minus) Range(one, one, one)
Reshape(cube, v3_m1) Reshape(cube, vm1_0_4) Reshape(cube, v0_m1) Reshape<allowzero=1>(none, v0_1)
Shape(cube) Shape<start=1>(cube) Shape<end=-1>(cube) Shape<start=-2,end=2>(cube) Size(cube) Size(none)
Slice(i, v1, v2) Slice(i, v0_1, v1_2) Slice(cube, v1, v9, v2) Slice(cube, v1, v3, vm2) Slice(cube, vm1, vm9, v2, vm1) Slice(cube, v9, v0, v2, vm2)
Slice(cube, v0, v9, v2, v3) Slice(cube, v0_1, v1_2, v1_0) Slice(cube, v3, v1, v2) Slice(cube, vm9, v1, v2) Slice(cube, v1, vm1, v2, , ) Slice(cube, v1, v2, , v1)
Slice(cube, vm9, vm9, v2, vm1) Slice(none, vm1, vm9, v0, vm1) Slice(cube, v2, v0, v2, vm1) Slice(cube, v0, vm9, v2, vm1) Slice(cube, vm2, v9, v2, v1)
Split(cube, v1_1) Split<axis=1>(cube, v2_1) Split<axis=-1>(cube, v1_1_2)
Squeeze(thin) Squeeze(thin, v0) Squeeze(thin, v0_m1) Squeeze(thin, v2) Tile(i, v2_3) Tile(i, v1_0) Transpose(cube) Transpose<perm=[1, 0, 2]>(cube)
Trilu(square) Trilu<upper=0>(square) Trilu(square, one) Trilu(square, minus) Trilu<upper=0>(square, minus)
Unique(i) Unique<sorted=0>(i) Unique<axis=0>(j) Unique<axis=1,sorted=0>(i) Unique<axis=-1>(i)
Unsqueeze(i, v1) Unsqueeze(i, v0_m1) Unsqueeze(i, vm1_m2) Where(c, i, j) Where(c, f, half) Where(c, lone, i)
ReduceMax(i, v1) ReduceMin(i) ReduceProd<keepdims=0>(j, v0) ReduceSum(i32) ReduceSum<keepdims=0>(i, v0_1) ReduceSum(cube, vm1) ReduceMax<keepdims=0>(i)
ReduceSum(i, vnone) ReduceProd(j) ReduceMin<keepdims=0>(i, vm1) ReduceMax(ends) ReduceMin(ends)
""".splitlines()
ROUNDED = """Cos(f) Exp(f) Log(q) Sigmoid(f) Sin(f) Tanh(f) Pow(q, f) Pow(q, v2) MatMul(f, square) MatMul(square, square)
Gemm(f, square) Gemm<transB=1>(f, square) Gemm<transA=1>(square, square) Gemm<alpha=0.5>(f, square) Gemm<alpha=2.0,beta=0.5>(f, square, g)
Gemm(f, square, half) Tanh(d) Exp(h)""".splitlines()
UNKNOWN = """
Nothing(f) Relu(f) Add(c, c) Neg(c) Abs(s) Cos(i) Tanh(i) Cast<to=8>(i) Cast<to=1>(s) Cast<to=17>(f) Cast<to=17,saturate=0>(f) Cast<to=22>(i)
Cast<to=1,saturate=0>(f) Cast<to=7>(nan) Cast<to=6>(inf) Cast<to=3>(i999) Cast<to=16>(d) Cast<to=16>(big257)
Div(i, i) Mod(f, f) Mod(i, i) ReduceSum(f) ReduceSum<noop_with_empty_axes=1>(i) ReduceSum<noop_with_empty_axes=1>(i, vnone) ReduceMax(c) ReduceSum(top) ReduceProd(many)
Pow(i, v2) Pow(f, s) MatMul(i, i) Gemm(i, i) Max(nan, half) Min(zeros, half) Max(c, e) Max(s, s) Flatten<axis=-1>(cube) Flatten(none) NonZero(lone)
Gather(i, v9) Gather(i, vm3) Gather(i, v2) GatherElements(i, far) GatherElements(i, below) Tile(i, v2) Squeeze(thin, vnone) Unsqueeze(i) Split(cube)
Split(cube, v2_1) Split(cube, v3) Range(one, lone, zero) Range(half, half, half) Slice(cube, v1, v2, v9) Slice(cube, v1, v2, v1, v0) Slice(cube, v1, v0_1)
Reshape(cube, v9) Expand(cube, v9) Transpose<perm=[0]>(cube) Concat<axis=9>(i, j) Sigmoid(i) Unique(nan) Unique<axis=0>(nan)
""".splitlines()
MORE = {
    "i999": np.array([999.0, 300.0], np.float32),
    "top": np.array([2**31 - 1, 1], np.int32),
    "many": np.array([2**40, 2**23], np.int64),
    "big257": np.array(16777217, np.int64),
    "zero": np.array(0, np.int64),
}


def calls(lines):
    """What is separated by spaces that stand behind a bracket."""
    return [call if call.endswith(")") else f"{call})" for line in lines for call in line.split(") ") if call]


def node_of(call):
    return onnx.parser.parse_node(f"y = {call}")


def computed(call, opset=18, **options):
    node = node_of(call)
    held = HELD | MORE
    inputs = [held[name] if name else None for name in node.input]
    return kernels.compute(node.op_type, opset, inputs, {a.name: attribute_value(a) for a in node.attribute}, **options)


def outputs(call):
    if not call.startswith("Split"):
        return 1
    return len(HELD[node_of(call).input[1]])


@cache
def expected():
    """What onnxruntime makes of all calls."""
    graph = onnx.GraphProto(name="g")
    for name, value in HELD.items():
        graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    for index, call in enumerate(calls([*EXACT, *ROUNDED])):
        node = node_of(call)
        node.output[:] = [f"y{index}_{k}" for k in range(outputs(call))]
        graph.node.append(node)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
    made = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    values = dict(zip((value.name for value in graph.output), OnnxRuntime(made).run({}), strict=True))
    return {
        call: [values[f"y{index}_{k}"] for k in range(outputs(call))]
        for index, call in enumerate(calls([*EXACT, *ROUNDED]))
    }


@pytest.mark.parametrize("call", calls(EXACT))
def test_what_every_engine_computes_is_that(call):
    found, exact = computed(call)
    assert exact
    for value, wanted in zip(found, expected()[call], strict=True):
        if value.dtype != object:
            assert value.dtype == wanted.dtype
        assert value.shape == wanted.shape
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("call", calls(ROUNDED))
def test_what_engines_round_is_close(call):
    [found], exact = computed(call)
    [wanted] = expected()[call]
    assert not exact
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=2e-3 if found.dtype == np.float16 else 1e-5, atol=1e-6)


@pytest.mark.parametrize("call", calls(UNKNOWN))
def test_what_engines_may_compute_otherwise_is_unknown(call):
    assert computed(call) is None


def test_what_is_narrow_is_computed_in_float_and_rounded_once():
    narrow = np.array([1.0, 1.0078125, 256.0], ml_dtypes.bfloat16)
    [found], exact = kernels.compute(
        "Add", 18, [narrow, np.array([0.00390625, 0.00390625, 1.0], ml_dtypes.bfloat16)], {}
    )
    assert (exact, found.dtype, found.astype(float).tolist()) == (True, ml_dtypes.bfloat16, [1.0, 1.015625, 256.0])
    [found], _ = kernels.compute("Less", 18, [narrow, narrow[::-1]], {})
    assert found.tolist() == [True, False, False]
    of_float8 = np.ones(2, ml_dtypes.float8_e4m3fn)
    assert kernels.compute("Add", 18, [of_float8, of_float8], {}) is None
    assert kernels.compute("Less", 18, [of_float8, of_float8], {}) is None


def test_what_becomes_bfloat16_is_rounded_once():
    [found], _ = computed("Cast<to=16>(f)")
    assert found.dtype == ml_dtypes.bfloat16
    assert found.astype(float).tolist() == [[0.10009765625, -1.5, 3.25], [2.5, -0.5, 0.00099945068359375]]
    [found], _ = computed("Cast<to=16>(i)")
    assert found.astype(float).tolist() == HELD["i"].tolist()


@pytest.mark.parametrize(
    ("call", "size"),
    [
        ("ConstantOfShape(v2_3)", 6), ("Range(one, lone, one)", 6), ("Range(lone, minus, minus)", 4.5), ("Gather<axis=1>(i, v0_m1)", 6),
        ("Gather(none, vnone)", 0), ("Concat<axis=0>(i, j)", 12), ("Expand(g, v2_1)", 6), ("Expand(none, v0_1)", 0),
        ("Expand(thin, v2_1_1)", 4), ("Add(f, g)", 6), ("Mul(g, f)", 6), ("Where(c, lone, lone)", 6), ("Mod(lone, j)", 6),
        ("Less(half, f)", 6), ("Equal(half, f)", 6), ("Sub(half, f)", 6), ("Div(half, f)", 6), ("Neg(f)", 6), ("Clip(f, , half)", 6),
        ("Abs(cube)", 24),
    ],
)  # fmt: skip
def test_nothing_large_is_computed(call, size):
    node = node_of(call)
    given = [HELD[name] for name in node.input if name]
    assert kernels._size(node.op_type, given) == size
    if kernels.can_compute(node.op_type) and size >= 1:
        assert computed(call, most=int(np.ceil(size))) is not None
        assert computed(call, most=int(np.ceil(size)) - 1) is None


@pytest.mark.parametrize(
    ("inputs", "attributes", "opset", "wanted"),
    [
        ("i", {"starts": [1], "ends": [9]}, 9, [[2, 0, -8]]),
        ("i", {"starts": [1, 0], "ends": [-1, 1], "axes": [1, 0]}, 9, [[-7]]),
        ("i v1 v9", {}, 10, [[2, 0, -8]]),
    ],
)
def test_a_slice_says_where_by_its_version(inputs, attributes, opset, wanted):
    [found], exact = kernels.compute("Slice", opset, [HELD[name] for name in inputs.split()], attributes)
    assert (found.tolist(), exact) == (wanted, True)


@pytest.mark.parametrize(
    ("op", "attributes", "wanted"),
    [
        ("Squeeze", {"axes": [0]}, [[1.0], [1.0]]),
        ("Squeeze", {}, [1.0, 1.0]),
        ("Unsqueeze", {"axes": [1]}, [[[[1.0], [1.0]]]]),
        ("Split", {"axis": 1, "split": [1, 1]}, [[[1.0]]]),
    ],
)
def test_axes_and_sizes_were_attributes(op, attributes, wanted):
    found, _ = kernels.compute(op, 11, [HELD["thin"]], attributes)
    assert found[0].tolist() == wanted


def test_what_is_known_of_operators():
    """Each that is known computes one of the calls above."""
    known = {node_of(call).op_type for call in calls([*EXACT, *ROUNDED])}
    assert known == {*kernels._ANY, *kernels._ARITHMETIC}
    assert all(map(kernels.can_compute, known))
    assert not kernels.can_compute("Relu")
    assert {node_of(call).op_type for call in calls(ROUNDED)} == kernels._ROUNDED

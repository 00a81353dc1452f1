"""What operators on integers take of what stands between DequantizeLinear and QuantizeLinear, and what stays."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold
from opshift.passes.fusion.quantization.forms import MOVED
from opshift.passes.model.schemas import MICROSOFT

from tests.support import evaluate, model, show

RNG = np.random.default_rng(0)
A = "a = DequantizeLinear(x, xs, xz)"
X = {"xs": np.float32(0.05), "xz": np.uint8(100)}
Y = {"ys": np.float32(0.1), "yz": np.uint8(7)}


def held(body, opset=21, *, inputs="uint8[2,3,6,6] x", outputs="uint8[A,B,C,D] y", **values):
    source = model(body, opset, inputs=inputs, outputs=outputs, domains=f'"{MICROSOFT}" : 1')
    source.ir_version = 10
    for name, value in {**X, **Y, **values}.items():
        if isinstance(value, onnx.TensorProto):
            source.graph.initializer.append(value)
        elif value is not None:
            source.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    return source


def folded(source, *ops):
    return fold.attempt(source, ops=[(MICROSOFT if "::" in op else "", op.rpartition("::")[2]) for op in ops]).model


def operators(of):
    return [node.op_type for node in of.graph.node]


def check(source, after, steps=1):
    """No element is more than a step away."""
    given = {v.name: RNG.integers(0, 200, [d.dim_value for d in v.type.tensor_type.shape.dim]).astype(np.uint8)
             for v in source.graph.input if v.name not in {t.name for t in source.graph.initializer}}  # fmt: skip
    want, got = evaluate(source, given)[0], evaluate(after, given)[0]
    assert np.abs(want.astype(np.float64) - got.astype(np.float64)).max() <= steps


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize("columns", [(), (5,)])
def test_constants_of_four_bits_are_written_in_eight(kind, columns):
    w = RNG.integers(0, 7, (6, 5)).astype(kind)
    scales = {"ws": RNG.uniform(0.1, 0.3, columns).astype(np.float32), "wz": np.full(columns, 3, kind)}
    body = f"{A} b = DequantizeLinear(w, ws, wz) f = MatMul(a, b) y = QuantizeLinear(f, ys, yz)"
    source = held(body, w=w, **scales)
    result = folded(source, "QLinearMatMul")
    assert operators(result) == ["QLinearMatMul"]
    (weights,) = (t for t in result.graph.initializer if list(t.dims) == [6, 5])
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(weights), w.astype(int))
    check(source, result)


CONV = f"{A} v = DequantizeLinear<axis=0>(w, ws, wz) f = Conv(a, v) "
W = {"w": RNG.integers(-90, 90, (4, 3, 3, 3)).astype(np.int8), "ws": np.float32(0.01), "wz": np.int8(0)}


@pytest.mark.parametrize(
    ("zero", "left"), [(0, ["QLinearConv"]), (7, ["DequantizeLinear"] * 2 + ["Conv", "Relu", "QuantizeLinear"])]
)
def test_what_the_lowest_number_cuts_off(zero, left):
    source = held(f"{CONV} g = Relu(f) y = QuantizeLinear(g, ys, yz)", **W, yz=np.uint8(zero))
    result = folded(source, "QLinearConv")
    assert operators(result) == left
    check(source, result)


@pytest.mark.parametrize("zero", [3, None])
def test_channels_keep_their_scales(zero):
    scales = {
        "ws": RNG.uniform(0.01, 0.02, 4).astype(np.float32),
        "wz": np.int8([0, 1, 0, 0] if zero is None else [zero] * 4),
    }
    source = held(f"{CONV} y = QuantizeLinear(f, ys, yz)", **{**W, **scales})
    result = folded(source, "QLinearConv")
    assert ("QLinearConv" in operators(result)) == (zero is not None), (
        "onnxruntime takes one zero point for all channels"
    )
    check(source, result)
    if zero is not None:
        held_scales = [t for t in result.graph.initializer if t.name == result.graph.node[0].input[4]]
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(held_scales[0]), scales["ws"])


POOL = f"{A} f = AveragePool<kernel_shape = [2, 2], {{}}>(a) y = QuantizeLinear(f, ys, yz)"
GEMM = (
    "a = DequantizeLinear(x, xs, xz) b = DequantizeLinear(w, ws, wz) c = DequantizeLinear(d, ds) f = Gemm<{}>(a, b, c)"
)
MATRIX = {"inputs": "uint8[3,6] x", "outputs": "uint8[A,B] y", "w": RNG.integers(-9, 9, (6, 5)).astype(np.int8),
          "ws": np.float32(0.1), "wz": np.int8(0), "d": RNG.integers(-99, 99, 5).astype(np.int32)}  # fmt: skip
STAYING = {
    "dilated windows": ("AveragePool", POOL.format("dilations = [2, 1]"), {}),
    "windows that the kernel counts otherwise": ("AveragePool", POOL.format("ceil_mode = 1, count_include_pad = 1, strides = [3, 3]"), {}),
    "a sum that is scaled": ("QGemm", GEMM.format("beta = 0.5") + " y = QuantizeLinear(f, ys, yz)", {**MATRIX, "ds": np.float32(0.005)}),
    "a sum that int32 cannot hold": ("QGemm", GEMM.format("alpha = 0.5") + " y = QuantizeLinear(f, ys, yz)", {**MATRIX, "ds": np.float32(1e6)}),
    "a sum in another scale for each row": ("QGemm", GEMM.format("alpha = 0.5") + " y = QuantizeLinear(f, ys, yz)",
                                            {**MATRIX, "d": MATRIX["d"].reshape(1, 5), "ds": np.float32(0.005)}),
    "a result of another type": ("QLinearAdd", f"{A} f = Add(a, a) y = QuantizeLinear(f, ys, yz)", {"yz": np.int8(1), "outputs": "int8[A,B,C,D] y"}),
    "scales of channels": ("QLinearAdd", "a = DequantizeLinear(x, xs, xz) f = Add(a, a) y = QuantizeLinear(f, ys, yz)", {"xs": np.float32([0.1, 0.2, 0.3]), "xz": np.uint8([1, 2, 3])}),
    "what is not quantized": ("QLinearAdd", f"{A} f = Add(a, k) y = QuantizeLinear(f, ys, yz)", {"k": np.float32(1)}),
}  # fmt: skip


@pytest.mark.parametrize("what", STAYING)
def test_anything_else_stays(what):
    op, body, values = STAYING[what]
    op = op if op.startswith("Q") else f"QLinear{op}"
    source = held(body, **values)
    assert not fold.attempt(source, ops=[(MICROSOFT, op)]).changes, show(source)


def test_nothing_of_a_vendor_comes_unless_it_is_named():
    source = held(f"{A} f = Add(a, a) y = QuantizeLinear(f, ys, yz)")
    assert not fold.attempt(source).changes
    result = folded(source, "com::QLinearAdd")
    assert operators(result) == ["QLinearAdd"]
    assert MICROSOFT in {i.domain for i in result.opset_import}
    check(source, result)


@pytest.mark.parametrize("zeros", ["", ", xz", ", xz, wz"])
@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
def test_products_of_integers_come_back(op, zeros):
    data = {"w": RNG.integers(-9, 9, (6, 5)).astype(np.int8)} if op == "MatMulInteger" else {"w": W["w"]}
    source = held(f"y = {op}(x, w{zeros})", **data, wz=np.int8(2), outputs="int32[A,B,C,D] y")
    plain = convert.attempt(source, {"": 21}, ops=[("", op)]).model
    assert op not in operators(plain)
    check(source, plain, 0)
    result = fold.attempt(plain, ops=[("", op)])
    assert operators(result.model) == [op]
    assert result.grade == "exact"
    check(source, result.model, 0)


@pytest.mark.parametrize("channels", [3, 40, 500])
def test_convolutions_in_pieces_come_back(channels):
    w = RNG.integers(-128, 128, (2, channels, 3, 3)).astype(np.int8)
    inputs = f"uint8[1,{channels},4,4] x"
    source = held(
        "y = ConvInteger<pads = [1, 1, 1, 1]>(x, w, xz, wz)",
        w=w,
        wz=np.int8(2),
        inputs=inputs,
        outputs="int32[A,B,C,D] y",
    )
    plain = convert.attempt(source, {"": 21}, ops=[("", "ConvInteger")]).model
    assert operators(plain).count("Conv") == {3: 1, 40: 2, 500: 4}[channels]
    result = folded(plain, "ConvInteger")
    assert operators(result) == ["ConvInteger"]
    check(source, result, 0)


def test_in_a_function_and_a_branch():
    body = f"{A} f = Add(a, a) g = QuantizeLinear(f, ys, yz)"
    branch = f"y = If(k) <then_branch = t () => (uint8[2,3] g) {{ {body} }}, else_branch = e () => (uint8[2,3] h) {{ h = Identity(x) }}>"
    source = held(branch, inputs="uint8[2,3] x, bool k", outputs="uint8[2,3] y")
    then = next(a.g for a in folded(source, "com::QLinearAdd").graph.node[0].attribute if a.name == "then_branch")
    assert [node.op_type for node in then.node] == ["QLinearAdd"]


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("moves", ["MaxPool<kernel_shape = [2, 2]>(a)", "Transpose(a)", "Reshape(a, k)", "Relu(a)"])
def test_what_only_moves_numbers_moves_integers(moves, same):
    result = "xs, xz" if same else "ys, yz"
    source = held(
        f"{A} f = {moves} y = QuantizeLinear(f, {result})", k=np.array([-1, 1, 1, 1]) if "k)" in moves else None
    )
    made = fold.attempt(source, ops=[MOVED])
    name = moves.partition("(")[0].partition("<")[0]
    kept = ["DequantizeLinear", name, "QuantizeLinear"]
    assert operators(made.model) == ([name] if same and name != "Relu" else kept)
    assert made.grade == "exact"
    check(source, made.model, 0)


@pytest.mark.parametrize("how", ["constant", "input", "reshaped"])
@pytest.mark.parametrize("op", ["Add(a, a)", "Mul(a, a)", "AveragePool<kernel_shape = [2, 2]>(a)"])
def test_operators_of_onnxruntime_get_scalars(op, how):
    """Those that check it take no vector of one element, as ONNX's own and most others do."""
    one = {"xs": np.float32([0.05]), "xz": np.uint8([100]), "ys": np.float32([0.1]), "yz": np.uint8([7])}
    body = f"{A} f = {op} y = QuantizeLinear(f, ys, yz)"
    if how == "reshaped":
        body = "t = Reshape(ys, none) " + body.replace("ys", "t").replace("t = Reshape(t", "t = Reshape(ys")
    source = held(body, **one, none=np.zeros(0, np.int64) if how == "reshaped" else None)
    if how == "input":
        source.graph.input.append(onnx.helper.make_tensor_value_info("xs", onnx.TensorProto.FLOAT, [1]))
    name = f"QLinear{op.partition('(')[0].partition('<')[0]}"
    result = folded(source, f"com::{name}")
    assert operators(result)[-1] == name
    check(source, result)


def test_a_scale_and_a_zero_point_keep_the_same_rank():
    body = f"{A} b = DequantizeLinear(w, ws, wz) f = Gemm(a, b) y = QuantizeLinear(f, ys, yz)"
    source = held(body, **{**MATRIX, "d": None, "ws": np.float32([0.1]), "wz": np.int8([3])})
    zero = onnx.helper.make_tensor_value_info("wz", onnx.TensorProto.INT8, [None])  # of whose length the run tells
    source.graph.input.append(zero)
    result = folded(source, "com::QGemm")
    assert operators(result) == ["QGemm"]
    check(source, result)


@pytest.mark.newest
@pytest.mark.parametrize("computed", ["", "xz", "yz", "xs", "xs xz", "xz yz", "xz ys"])
def test_where_the_kernel_would_end_the_process_it_stays(computed):
    body = f"{A} f = Where(k, a, a) y = QuantizeLinear(f, ys, yz)"
    source = held(body, k=np.array(True))
    for name in computed.split():
        kind = onnx.TensorProto.FLOAT if name[1] == "s" else onnx.TensorProto.UINT8
        source.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, []))
    result = folded(source, "com::QLinearWhere")
    assert ("QLinearWhere" in operators(result)) == (computed not in ("xz", "xs xz"))
    check(source, result)


@pytest.mark.newest
@pytest.mark.parametrize(
    ("shape", "folds"),
    [
        ([2, 3, 4], True),
        ([2, -1, 4], True),
        ([-1, 3, 4], True),
        ([2, 4, 3], False),
        ([6, 4], False),
        ([2, 3, 2, 2], False),
    ],
)
def test_a_softmax_of_rows_takes_the_shape_of_the_data_in_numbers(shape, folds):
    body = f"{A} f = Flatten<axis=1>(a) s = Softmax<axis=-1>(f) r = Reshape(s, to) y = QuantizeLinear(r, ys, yz)"
    source = held(body, inputs="uint8[2,3,4] x", outputs="uint8[A,B,C] y", to=np.array(shape), ys=np.float32(1 / 256))
    assert (operators(folded(source, f"{MICROSOFT}::QLinearSoftmax")) == ["QLinearSoftmax"]) is folds

"""QuantizeLinear and DequantizeLinear on request, judged by numpy in float64 and by onnxruntime."""

import ml_dtypes
import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import Reference
from tests.passes.operators.on_request import inlined
from tests.support import evaluate, model

X = np.array([[0.0, -0.0, 1.25, -2.5, 0.5, 300.0], [-300.0, 2.5, 3.5, -1.5, 1e-3, 40.0]], np.float32)
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535), "int4": (-8, 7), "uint4": (0, 15)}  # fmt: skip
LAYOUTS = {  # the scale, its attributes
    "tensor": (np.array(0.5, np.float32), ""),
    "axis 0": (np.array([0.5, 0.25], np.float32), "axis = 0"),
    "axis 1": (np.array([0.5, 0.25, 1, 2, 4, 0.125], np.float32), "axis = 1"),
    "blocks": (np.array([[0.5, 0.25], [1, 2]], np.float32), "axis = 1, block_size = 3"),
}


def spread(value, layout):
    if layout == "blocks":
        return np.repeat(value, 3, axis=1)
    return value[:, None] if layout == "axis 0" else value


def attributes(*parts):
    inside = ", ".join(filter(None, parts))
    return f"<{inside}>" if inside else ""


def shape(of):
    return f"[{','.join(map(str, of.shape))}]" if of.ndim else ""


def numbers(of):
    return f"{{{', '.join(repr(float(v)) if of.dtype.kind == 'f' else str(int(v)) for v in of.ravel())}}}"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("shift", [0, 3])
def test_quantize(layout, kind, shift):
    scale, inside = LAYOUTS[layout]
    zero = np.full(scale.shape, shift)
    low, high = RANGES[kind]
    expected = np.clip(np.rint(X / spread(scale, layout)) + shift, low, high)
    source = model(
        f"q = QuantizeLinear{attributes(inside)}(x, s, z) y = Cast<to = 6>(q)", 21, inputs="float[2,6] x", outputs="int32[2,6] y",
        constants=f"float{shape(scale)} s = {numbers(scale)}",
    )  # fmt: skip
    narrow = zero.astype(onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind.upper())))
    source.graph.initializer.append(onnx.numpy_helper.from_array(narrow, "z"))  # ONNX text does not pack 4 bits
    after = inlined(source, "QuantizeLinear")
    np.testing.assert_array_equal(evaluate(after, {"x": X})[0], expected)
    assert [n.op_type for n in after.graph.node] == ["Div", "Round", *["Add"] * (shift > 0), "Clip", "Cast", "Cast"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("held", [True, False])
def test_dequantize(layout, kind, held):
    scale, inside = LAYOUTS[layout]
    dtype = np.dtype(kind)
    zero = np.full(scale.shape, 0 if kind == "int32" else 3, dtype)
    x = np.resize(np.array([0, 1, 127, np.iinfo(dtype).min, np.iinfo(dtype).max, 5], dtype), (2, 6))
    expected = (x.astype(np.float64) - spread(zero.astype(np.float64), layout)) * spread(
        scale.astype(np.float64), layout
    )
    given = {"s": ("float", scale), "z": (kind, zero)}
    texts = [f"{of}{shape(value)} {name}" for name, (of, value) in given.items()]
    source = model(
        f"y = DequantizeLinear{attributes(inside)}(x, s, z)", 21, outputs="float[2,6] y",
        inputs=", ".join([f"{kind}[2,6] x", *([] if held else texts)]),
        constants=", ".join(f"{t} = {numbers(v)}" for t, (_, v) in zip(texts, given.values(), strict=True)) if held else "",
    )  # fmt: skip
    feeds = {"x": x} if held else {"x": x, "s": scale, "z": zero}
    after = inlined(source, "DequantizeLinear")
    np.testing.assert_allclose(evaluate(after, feeds)[0], expected, rtol=2e-7)


@pytest.mark.parametrize(("number", "dtype"), [(17, ml_dtypes.float8_e4m3fn), (19, ml_dtypes.float8_e5m2)])
@pytest.mark.parametrize("saturate", [0, 1])
def test_float8(number, dtype, saturate):
    source = model(
        f"q = QuantizeLinear<output_dtype = {number}, saturate = {saturate}>(x, s) y = DequantizeLinear(q, s)", 23,
        inputs="float[2,6] x", outputs="float[2,6] y", constants="float s = {0.5}",
    )  # fmt: skip
    after = inlined(inlined(source, "QuantizeLinear"), "DequantizeLinear")
    assert [n.op_type for n in after.graph.node] == ["Div", "Cast", "Cast", "Mul"]
    ratio = X / 0.5
    limit = float(ml_dtypes.finfo(dtype).max)
    expected = (np.clip(ratio, -limit, limit) if saturate else ratio).astype(dtype).astype(np.float32) * 0.5
    np.testing.assert_array_equal(evaluate(after, {"x": X})[0], expected)


def test_the_quotient_is_rounded_to_the_type_of_the_scale():
    io = {"inputs": "float16[3] x, float16 s", "outputs": "uint8[3] y", "constants": "uint8 z = {1}"}
    source = model("y = QuantizeLinear(x, s, z)", 21, **io)
    x, s = np.array([0.45, 1.05, 7.35], np.float16), np.array(0.3, np.float16)
    expected = np.rint((x / s).astype(np.float32)) + 1
    (actual,) = Reference(inlined(source, "QuantizeLinear")).run({"x": x, "s": s})  # onnxruntime skips casts to float16
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("op", ["DequantizeLinear", "QuantizeLinear"])
def test_scales_per_axis_of_data_of_unknown_rank_are_no_scales_of_a_scalar(op):
    kind, out = ("uint8", "float") if op == "DequantizeLinear" else ("float", "uint8")
    io = {"inputs": f"{kind}[N] x, int64[K] d", "outputs": f"{out}[A,B,C] y", "constants": "float[2] s = {0.5, 2.0}"}
    source = model(f"z = Reshape(x, d) y = {op}<axis=1>(z, s)", 21, **io)
    refusals = convert.attempt(source, {"": 21}, ops=[("", op)]).refusals
    assert [r.why for r in refusals] == ['the rank of "z" is unknown; a known rank could be expressed']

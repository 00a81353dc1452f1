"""Scales and zero points of one element, an axis or a block, of both operators."""

import ml_dtypes
import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import Reference
from tests.passes.operators.on_request import inlined
from tests.support import check, check_refused, check_unchanged, check_values, evaluate, model, show

LARGE = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, np.inf, -np.inf, -0.0, 127.5, 3.25], np.float32)
QUANTIZED = {"inputs": "float[3,4] x", "outputs": "int8[3,4] y"}
DEQUANTIZED = {"inputs": "int8[3,4] x", "outputs": "float[3,4] y"}
PER_ROW = "float[3] s = {0.5, 0.25, 4}, int8[3] z = {1, -2, 3}"


def feeds(**given):
    return {"feeds": {name: np.asarray(value) for name, value in given.items()}}


BLOCKS = "float[3,2] s = {0.5, 0.25, 4, 1, 2, 8}, int8[3,2] z = {1, -2, 3, 0, 5, -6}"


def scaled_by_powers(body, **io):
    source = model(body, 24, **io)
    powers = np.array([0.25, 8.0], ml_dtypes.float8_e8m0fnu)
    source.graph.initializer.append(onnx.numpy_helper.from_array(powers, "s"))
    return source


@pytest.mark.parametrize("target", [10, 13, 19, 21, 23, 24, 25, 28])
def test_a_scalar_scale_is_the_same_everywhere(target):
    held = "float s = {0.5}, int8 z = {3}"
    for source in (10, 28):
        check_unchanged("y = QuantizeLinear(x, s, z)", source, target, constants=held, **QUANTIZED)
        check_unchanged("y = DequantizeLinear(x, s, z)", source, target, constants=held, **DEQUANTIZED)


def test_scales_per_axis_stay_above_13():
    check_unchanged("y = QuantizeLinear<axis=0>(x, s, z)", 28, 13, constants=PER_ROW, **QUANTIZED)
    check_unchanged("y = DequantizeLinear<axis=-2>(x, s, z)", 28, 13, constants=PER_ROW, **DEQUANTIZED)


@pytest.mark.parametrize(("axis", "shape"), [(0, [-1, 1]), (-2, [-1, 1])])
def test_scales_per_axis_are_written_out_below_13(axis, shape):
    check(
        f"y = QuantizeLinear<axis={axis}>(x, s, z)", 13,
        f"""t1 = Reshape([0.5, 0.25, 4.0], {shape})
        t2 = Div(x, t1)
        t3 = Round(t2)
        t4 = Cast<to=1>(int8:[1, -2, 3])
        t5 = Reshape(t4, {shape})
        t6 = Add(t3, t5)
        t7 = Clip(t6, -128.0, 127.0)
        y = Cast<to=3>(t7)""", 12,
        constants=PER_ROW, **QUANTIZED, **feeds(x=LARGE.reshape(3, 4)),
    )  # fmt: skip
    check(
        f"y = DequantizeLinear<axis={axis}>(x, s, z)", 13,
        f"""t1 = Cast<to=6>(int8:[1, -2, 3])
        t2 = Reshape(t1, {shape})
        t3 = Cast<to=6>(x)
        t4 = Sub(t3, t2)
        t5 = Reshape([0.5, 0.25, 4.0], {shape})
        t6 = Cast<to=1>(t4)
        y = Mul(t6, t5)""", 12,
        constants=PER_ROW, **DEQUANTIZED, **feeds(x=np.array([-128, 127, 0, 1] * 3, np.int8).reshape(3, 4)),
    )  # fmt: skip


def test_the_default_axis_is_active_although_it_is_absent():
    held = "float[4] s = {0.5, 0.25, 4, 1}"
    check(
        "y = QuantizeLinear(x, s)", 13,
        "t1 = Div(x, [0.5, 0.25, 4.0, 1.0])\nt2 = Round(t1)\nt3 = Clip(t2, 0.0, 255.0)\ny = Cast<to=2>(t3)",
        12,
        inputs="float[3,4] x", outputs="uint8[3,4] y", constants=held, **feeds(x=LARGE.reshape(3, 4)),
    )  # fmt: skip
    check(
        "y = DequantizeLinear(x, s)", 13, "t1 = Cast<to=1>(x)\ny = Mul(t1, [0.5, 0.25, 4.0, 1.0])", 12,
        constants=held, **DEQUANTIZED,
    )  # fmt: skip


def test_axis_without_a_meaning_goes():
    held = "float s = {0.5}, int8 z = {3}"
    check(
        "y = QuantizeLinear<axis=0>(x, s, z)",
        13,
        "y = QuantizeLinear(x, 0.5, int8:3)",
        12,
        constants=held,
        **QUANTIZED,
    )
    one = "float[1] s = {0.5}, int8[1] z = {3}"
    expected = "t1 = Reshape([0.5], [])\nt2 = Reshape(int8:[3], [])\ny = DequantizeLinear(x, t1, t2)"
    io = {"inputs": "int8[2,1] x", "outputs": "float[2,1] y", "constants": one}
    check("y = DequantizeLinear<axis=1>(x, s, z)", 13, expected, 12, **io)


def test_half_scales_become_float():
    check(
        "y = DequantizeLinear(x, s)", 19,
        "t1 = Cast<to=1>(float16:0.099976)\nt2 = DequantizeLinear(x, t1)\ny = Cast<to=10>(t2)", 18,
        inputs="int8[12] x", outputs="float16[12] y", constants="float16 s = {11878}",
        **feeds(x=np.array([-128, 127, 0, 1, -1, 99, 77, -3, 64, 2, 5, 6], np.int8)),
    )  # fmt: skip
    check(
        "y = QuantizeLinear<saturate=1>(x, s)", 19,
        "t1 = Cast<to=1>(float16:0.099976)\nt2 = Cast<to=1>(x)\ny = QuantizeLinear(t2, t1)", 18,
        inputs="float16[12] x", outputs="uint8[12] y", constants="float16 s = {11878}", grade="close",
        **feeds(x=np.arange(12, dtype=np.float16)),
    )  # fmt: skip


def test_float8_is_refused_at_run_time():
    io = {"inputs": "float8e4m3fn[2] x", "outputs": "float[2] y", "constants": "float s = {0.5}"}
    check_refused("y = DequantizeLinear(x, s)", 19, 18, "tensor(float8e4m3fn) does not exist at opset 18", **io)
    io = {"inputs": "float[2] x, float8e5m2 z", "outputs": "float8e5m2[2] y", "constants": "float s = {0.5}"}
    check_refused("y = QuantizeLinear(x, s, z)", 19, 18, "tensor(float8e5m2) does not exist at opset 18", **io)


@pytest.mark.parametrize("axis", [1, -1])
def test_blocks_are_written_out(axis):
    check(
        f"y = QuantizeLinear<axis={axis}, block_size=3>(x, s, z)", 21,
        """t1 = Gather<axis=1>([[0.5, 0.25], [4.0, 1.0], [2.0, 8.0]], [0, 0, 0, 1])
        t2 = Div(x, t1)
        t3 = Round(t2)
        t4 = Cast<to=1>(int8:[[1, -2], [3, 0], [5, -6]])
        t5 = Gather<axis=1>(t4, [0, 0, 0, 1])
        t6 = Add(t3, t5)
        t7 = Clip(t6, -128.0, 127.0)
        y = Cast<to=3>(t7)""", 20,
        constants=BLOCKS, **QUANTIZED, **feeds(x=LARGE.reshape(3, 4)),
    )  # fmt: skip
    check(
        f"y = DequantizeLinear<axis={axis}, block_size=3>(x, s, z)", 21,
        """t1 = Cast<to=6>(int8:[[1, -2], [3, 0], [5, -6]])
        t2 = Gather<axis=1>(t1, [0, 0, 0, 1])
        t3 = Cast<to=6>(x)
        t4 = Sub(t3, t2)
        t5 = Gather<axis=1>([[0.5, 0.25], [4.0, 1.0], [2.0, 8.0]], [0, 0, 0, 1])
        t6 = Cast<to=1>(t4)
        y = Mul(t6, t5)""", 20,
        constants=BLOCKS, **DEQUANTIZED, **feeds(x=np.array([-128, 127, 0, 1] * 3, np.int8).reshape(3, 4)),
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "number", "low", "high"), [("int16", 5, -32768, 32767), ("uint16", 4, 0, 65535)])
def test_16_bit_integers_are_written_out(kind, number, low, high):
    check(
        f"y = QuantizeLinear<output_dtype={number}>(x, s)", 21,
        f"t1 = Div(x, 0.5)\nt2 = Round(t1)\nt3 = Clip(t2, {low}.0, {high}.0)\ny = Cast<to={number}>(t3)", 20,
        inputs="float[3,4] x", outputs=f"{kind}[3,4] y", constants="float s = {0.5}",
        **feeds(x=LARGE.reshape(3, 4)),
    )  # fmt: skip
    check(
        "y = DequantizeLinear(x, s, z)", 21,
        f"""t1 = Cast<to=6>({kind}:{high})
        t2 = Cast<to=6>(x)
        t3 = Sub(t2, t1)
        t4 = Cast<to=1>(t3)
        y = Mul(t4, 0.1)""", 20,
        inputs=f"{kind}[3] x", outputs="float[3] y", constants=f"float s = {{0.1}}, {kind} z = {{{high}}}",
        **feeds(x=np.array([low, high, 1], kind)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "number", "opset"),
    [("int4", 22, 21), ("uint4", 21, 21), ("int2", 26, 25), ("float4e2m1", 23, 23)],
)
def test_narrow_types_are_refused_at_run_time(kind, number, opset):
    held = {"constants": "float s = {0.5}"}
    check_refused(
        "y = DequantizeLinear(x, s)", opset, opset - 1, f"tensor({kind}) does not exist at opset {opset - 1}",
        inputs=f"{kind}[2] x", outputs="float[2] y", **held,
    )  # fmt: skip
    check_refused(
        f"y = QuantizeLinear<output_dtype={number}>(x, s)", opset, opset - 1, f"tensor({kind}) does not exist at opset {opset - 1}",
        inputs="float[2] x", outputs=f"{kind}[2] y", **held,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "after", "io"),
    [
        (
            "y = DequantizeLinear<axis=0, output_dtype=1>(x, s)",
            "y = DequantizeLinear<axis=0, output_dtype=1>(x, [0.25, 8.0])",
            {"inputs": "int8[2] x", "outputs": "float[2] y"},
        ),
        (
            "y = QuantizeLinear<axis=0, precision=1>(x, s)",
            "y = QuantizeLinear<axis=0, precision=1>(x, [0.25, 8.0])",
            {"inputs": "float[2] x", "outputs": "uint8[2] y"},
        ),
    ],
)
def test_powers_of_two_become_float(body, after, io):
    source = scaled_by_powers(body, **io)
    result = convert.attempt(source, {"": 23})
    assert show(result.model) == after
    x = np.array([3, 5], np.int8 if "int8[2] x" in io["inputs"] else np.float32)
    check_values(source, result.model, {"x": x}, rtol=0, atol=0)


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
    assert [r.why for r in refusals] == [
        'the rank of "z" is unknown; try --fix-shape, or a value_info that declares it'
    ]


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("way", [(12, 9), (12, 13), (19, 12), (19, 9), (21, 9), (24, None)])
@pytest.mark.parametrize("dims", ["1", "n"])
@pytest.mark.parametrize("at", ["[3,4]", ""])
def test_a_vector_of_one_zero_point_beside_a_scalar(op, way, dims, at):
    opset, target = way
    kinds = ("float", "uint8") if op == "QuantizeLinear" else ("uint8", "float")
    io = {"inputs": f"{kinds[0]}{at} x, float s, uint8[{dims}] z", "outputs": f"{kinds[1]}{at} y"}
    source = model(f"y = {op}(x, s, z)", opset, **io)
    after = convert.attempt(source, {"": target}).model if target else inlined(source, op)
    x = np.array(6.5 if kinds[0] == "float" else 6, kinds[0].replace("float", "float32"))
    given = {"x": np.full((3, 4) if at else (), x), "s": np.array(0.5, np.float32), "z": np.array([3], np.uint8)}
    check_values(source, after, given, rtol=0, atol=0)


@pytest.mark.parametrize("constants", ["", "float[16] s = {{{}}}".format(", ".join(["0.5"] * 16))])
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_scales_of_another_number_than_the_axis_has_elements_are_refused(op, constants):
    x, y = ("float", "uint16") if op == "QuantizeLinear" else ("uint16", "float")
    inputs = f"{x}[16,3] x, uint16[16] z" + ("" if constants else ", float[16] s")
    io = {"inputs": inputs, "outputs": f"{y}[16,3] y", "constants": constants}
    check_refused(f"y = {op}<axis=1>(x, s, z)", 21, 20, "16 scales for an axis of 3 elements", **io)
    assert convert.attempt(model(f"y = {op}<axis=0>(x, s, z)", 21, **io), {"": 20}).model is not None

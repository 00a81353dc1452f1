"""QuantizeLinear and DequantizeLinear: granularity, output types, precision, constants in carrier types."""

import ml_dtypes
import numpy as np
import onnx.helper
import pytest
from onnx import TensorProto as T
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_unchanged, check_values, model, show

LARGE = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, np.inf, -np.inf, -0.0, 127.5, 3.25], np.float32)
QUANTIZED = {"inputs": "float[3,4] x", "outputs": "int8[3,4] y"}
DEQUANTIZED = {"inputs": "int8[3,4] x", "outputs": "float[3,4] y"}
PER_ROW = "float[3] s = {0.5, 0.25, 4}, int8[3] z = {1, -2, 3}"


def feeds(**given):
    return {"feeds": {name: np.asarray(value) for name, value in given.items()}}


# --- nothing to do ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [10, 13, 19, 21, 23, 24, 25, 28])
def test_a_scalar_scale_is_the_same_everywhere(target):
    held = "float s = {0.5}, int8 z = {3}"
    for source in (10, 28):
        check_unchanged("y = QuantizeLinear(x, s, z)", source, target, constants=held, **QUANTIZED)
        check_unchanged("y = DequantizeLinear(x, s, z)", source, target, constants=held, **DEQUANTIZED)


def test_scales_per_axis_stay_above_13():
    check_unchanged("y = QuantizeLinear<axis=0>(x, s, z)", 28, 13, constants=PER_ROW, **QUANTIZED)
    check_unchanged("y = DequantizeLinear<axis=-2>(x, s, z)", 28, 13, constants=PER_ROW, **DEQUANTIZED)


# --- 13: scales per axis ----------------------------------------------------------------------------------


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


def test_a_vector_of_one_scale_becomes_a_scalar_at_13():
    check(
        "y = QuantizeLinear(x, s)", 12, "t1 = Reshape([0.5], [])\ny = QuantizeLinear(x, t1)", 13,
        inputs="float[3,4] x", outputs="uint8[3,4] y", constants="float[1] s = {0.5}",
    )  # fmt: skip


def test_a_scale_of_unknown_rank_broadcasts_either_way():
    for scale in (np.float32(0.5), np.array([0.5, 0.25, 4], np.float32)):
        source = model(
            "y = DequantizeLinear<axis=0>(x, s)", 13, inputs="int8[3,4] x, float[] s", outputs="float[3,4] y"
        )
        source.graph.input[1].type.tensor_type.ClearField("shape")
        result = convert.attempt(source, {"": 12})
        assert show(result.model) == "t1 = Reshape(s, [-1, 1])\nt2 = Cast<to=1>(x)\ny = Mul(t2, t1)"
        x = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
        check_values(source, result.model, {"x": x, "s": np.asarray(scale)}, rtol=0, atol=0)


def test_scales_per_axis_without_a_rank_are_refused():
    source = model("y = DequantizeLinear(x, s)", 13, inputs="int8[] x, float[3] s", outputs="float[] y")
    source.graph.input[0].type.tensor_type.ClearField("shape")
    source.graph.output[0].type.tensor_type.ClearField("shape")
    refusals = convert.attempt(source, {"": 12}).refusals
    assert [r.why for r in refusals] == ['the rank of "x" is unknown; a known rank could be expressed']


# --- 19: 16-bit scales and float8 -------------------------------------------------------------------------


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


def test_integers_are_quantized_as_float_from_19_on():
    # No engine runs QuantizeLinear of int32 before opset 19.
    check(
        "y = QuantizeLinear(x, s)", 18, "t1 = Cast<to=1>(x)\ny = QuantizeLinear(t1, 0.5)", 19,
        inputs="int32[3] x", outputs="uint8[3] y", constants="float s = {0.5}", grade="close", run=False,
    )  # fmt: skip


def test_what_has_no_known_type_is_quantized_as_float_from_19_on():
    check(
        "u = d.Odd(x)\ny = QuantizeLinear(u, s)", 18,
        "t1 = d.Odd(x)\nt2 = Cast<to=1>(t1)\ny = QuantizeLinear(t2, 0.5)", 19,
        inputs="float[3] x", outputs="uint8[3] y", constants="float s = {0.5}", domains='"d" : 1', grade="close",
        run=False,  # no engine knows d.Odd
    )  # fmt: skip


def test_integer_scales_become_float():
    # No engine runs QuantizeLinear of int32 before opset 19.
    check(
        "y = QuantizeLinear(x, s)", 19, "t1 = Cast<to=1>(int32:2)\ny = QuantizeLinear(x, t1)", 18,
        inputs="int32[3] x", outputs="uint8[3] y", constants="int32 s = {2}", grade="close", run=False,
    )  # fmt: skip


def test_float8_is_dequantized_if_constant():
    held = onnx.helper.make_tensor("x", T.FLOAT8E4M3FN, [2, 2], [1.5, -448.0, -0.0, 0.0625])
    source = model("y = DequantizeLinear(x, s)", 19, inputs="float s", outputs="float[2,2] y")
    source.graph.initializer.append(held)
    result = convert.attempt(source, {"": 18})
    assert show(result.model) == "y = Mul([[1.5, -448.0], [-0.0, 0.0625]], s)"
    assert [t.data_type for t in result.model.graph.initializer] == [T.FLOAT]
    check_values(source, result.model, rtol=0, atol=0)


def test_blocks_of_constant_float8_are_dequantized():
    held = onnx.helper.make_tensor("x", T.FLOAT8E4M3FN, [1, 3], [1.5, -448.0, 0.0625])
    io = {"inputs": "float[1,2] s", "outputs": "float[1,3] y"}
    source = model("y = DequantizeLinear<axis=1, block_size=2>(x, s)", 21, **io)
    source.graph.initializer.append(held)
    for target in (20, 18):
        result = convert.attempt(source, {"": target})
        assert not result.refusals
        assert result.grade == "exact"
        check_values(source, result.model, rtol=0, atol=0)


def test_float8_is_refused_at_run_time():
    io = {"inputs": "float8e4m3fn[2] x", "outputs": "float[2] y", "constants": "float s = {0.5}"}
    check_refused("y = DequantizeLinear(x, s)", 19, 18, "tensor(float8e4m3fn) does not exist at opset 18", **io)
    io = {"inputs": "float[2] x, float8e5m2 z", "outputs": "float8e5m2[2] y", "constants": "float s = {0.5}"}
    check_refused("y = QuantizeLinear(x, s, z)", 19, 18, "tensor(float8e5m2) does not exist at opset 18", **io)


# --- 21: blocks, 16-bit integers, output_dtype ------------------------------------------------------------

BLOCKS = "float[3,2] s = {0.5, 0.25, 4, 1, 2, 8}, int8[3,2] z = {1, -2, 3, 0, 5, -6}"


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


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_blocks_along_a_symbolic_dimension(size):
    source = model(
        "y = DequantizeLinear<axis=1, block_size=2>(x, s)", 21,
        inputs="int8[2,N] x, float[2,M] s", outputs="float[2,N] y",
    )  # fmt: skip
    result = convert.attempt(source, {"": 20})
    assert "Range(" in show(result.model)
    x = np.arange(2 * size, dtype=np.int8).reshape(2, size)
    scale = np.array([[1, 0.5], [2, 4]], np.float32)[:, : -(-size // 2)]
    check_values(source, result.model, {"x": x, "s": scale}, rtol=0, atol=0)


def test_one_block_is_told_by_the_rank_of_the_scale():
    held = "float s = {0.5}"
    check(
        "y = DequantizeLinear<block_size=2>(x, s)",
        21,
        "y = DequantizeLinear(x, 0.5)",
        20,
        constants=held,
        **DEQUANTIZED,
    )
    flat = {"inputs": "int8[3] x", "outputs": "float[3] y", "constants": "float[2] s = {0.5, 2}"}
    expected = "t1 = Gather<axis=0>([0.5, 2.0], [0, 0, 1])\nt2 = Cast<to=1>(x)\ny = Mul(t2, t1)"
    check("y = DequantizeLinear<axis=0, block_size=2>(x, s)", 21, expected, 20, **flat)
    why = "a scale of rank 2 without block_size"
    check_refused("y = DequantizeLinear(x, s, z)", 21, 20, why, constants=BLOCKS, **DEQUANTIZED)


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


def test_output_dtype_becomes_a_zero_point():
    held = "float s = {0.5}"
    check(
        "y = QuantizeLinear<output_dtype=3>(x, s)",
        21,
        "y = QuantizeLinear(x, 0.5, int8:0)",
        20,
        constants=held,
        **QUANTIZED,
    )
    rows = "float[3] s = {0.5, 1, 2}"
    expected = "y = QuantizeLinear<axis=0>(x, [0.5, 1.0, 2.0], int8:[0, 0, 0])"
    check("y = QuantizeLinear<axis=0, output_dtype=3>(x, s)", 21, expected, 20, constants=rows, **QUANTIZED)
    io = {"inputs": "float[3,4] x", "outputs": "uint8[3,4] y", "constants": held}
    check("y = QuantizeLinear<output_dtype=2>(x, s)", 21, "y = QuantizeLinear(x, 0.5)", 20, **io)


def test_output_dtype_beside_a_symbolic_scale():
    check(
        "y = QuantizeLinear<axis=0, output_dtype=3>(x, s)", 21,
        "t1 = Shape(s)\nt2 = ConstantOfShape(t1)\nt3 = Cast<to=3>(t2)\ny = QuantizeLinear<axis=0>(x, s, t3)",
        20,
        inputs="float[N,4] x, float[N] s", outputs="int8[N,4] y", **feeds(s=np.array([1, 2, 4], np.float32)),
    )  # fmt: skip


def test_blocks_of_float8_are_divided_first():
    check(
        "y = QuantizeLinear<axis=1, block_size=2, output_dtype=17, saturate=0>(x, s)", 21,
        """t1 = Gather<axis=1>([[0.5, 0.25]], [0, 0, 1])
        t2 = Div(x, t1)
        y = QuantizeLinear<saturate=0>(t2, 1.0, float8_e4m3fn:0.0)""", 20,
        inputs="float[1,3] x", outputs="float8e4m3fn[1,3] y", constants="float[1,2] s = {0.5, 0.25}",
    )  # fmt: skip
    io = {"inputs": "float[1,3] x, float8e4m3fn[1,2] z", "outputs": "float8e4m3fn[1,3] y"}
    held = "float[1,2] s = {0.5, 0.25}"
    why = "blocks of float8 with zero points"
    check_refused("y = QuantizeLinear<axis=1, block_size=2>(x, s, z)", 21, 20, why, constants=held, **io)


@pytest.mark.parametrize(("zero", "refused"), [([0.0, -0.0], False), ([0.0, 1.0], True)])
def test_blocks_of_float8_with_constant_zero_points(zero, refused):
    io = {"inputs": "float[1,3] x", "outputs": "float8e4m3fn[1,3] y", "constants": "float[1,2] s = {0.5, 2}"}
    source = model("y = QuantizeLinear<axis=1, block_size=2>(x, s, z)", 21, **io)
    source.graph.initializer.append(onnx.helper.make_tensor("z", T.FLOAT8E4M3FN, [1, 2], zero))
    result = convert.attempt(source, {"": 20})
    assert bool(result.refusals) is refused
    if result.model is not None:
        check_values(source, result.model, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("kind", "wide", "opset"),
    [
        (T.INT4, "int8", 21), (T.UINT4, "uint8", 21), (T.INT2, "int8", 25), (T.UINT2, "uint8", 25),
        (T.FLOAT4E2M1, "float8_e4m3fn", 23),
        (T.FLOAT6E2M3, "float8_e4m3fn", 28), (T.FLOAT6E3M2, "float8_e4m3fn", 28),
    ],
)  # fmt: skip
def test_constants_of_narrow_types_are_widened(kind, wide, opset):
    signed = kind in (T.INT4, T.INT2)
    values = np.array([0, 1, -2 if signed else 2, 1], np.float32)
    source = model("y = DequantizeLinear(x, s)", opset, inputs="float s", outputs="float[4] y")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    source.graph.initializer.append(onnx.numpy_helper.from_array(values.astype(dtype), "x"))
    result = convert.attempt(source, {"": opset - 1})
    assert not result.refusals
    held = values.tolist() if "float" in wide else values.astype(int).tolist()
    assert show(result.model) == f"y = DequantizeLinear({wide}:{held}, s)"
    check_values(source, result.model, rtol=0, atol=0)


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


# --- 23: output_dtype and precision -----------------------------------------------------------------------


def test_output_dtype_of_the_scale_goes():
    expected = "y = DequantizeLinear(x, 0.5)"
    check(
        "y = DequantizeLinear<output_dtype=1>(x, s)",
        23,
        expected,
        22,
        constants="float s = {0.5}",
        **DEQUANTIZED,
    )


def test_a_wider_output_dtype_widens_the_scale():
    check(
        "y = DequantizeLinear<output_dtype=1>(x, s)", 23,
        "t1 = Cast<to=1>(float16:0.099976)\ny = DequantizeLinear(x, t1)", 22,
        constants="float16 s = {11878}", **DEQUANTIZED,
    )  # fmt: skip


def test_a_narrower_output_dtype_is_cast_to():
    check(
        "y = DequantizeLinear<output_dtype=10>(x, s)", 23,
        "t1 = DequantizeLinear(x, 0.1)\ny = Cast<to=10>(t1)", 22,
        inputs="int8[3,4] x", outputs="float16[3,4] y", constants="float s = {0.1}", grade="close",
    )  # fmt: skip


@pytest.mark.newest
def test_x_and_scale_get_one_type():
    check(
        "y = QuantizeLinear(x, s)", 23, "t1 = Cast<to=1>(x)\ny = QuantizeLinear(t1, 0.5)", 22,
        inputs="float16[3,4] x", outputs="uint8[3,4] y", constants="float s = {0.5}",
        **feeds(x=np.arange(12, dtype=np.float16).reshape(3, 4)),
    )  # fmt: skip
    check(
        "y = QuantizeLinear<precision=1>(x, s)", 23,
        "t1 = Cast<to=1>(x)\nt2 = Cast<to=1>(float16:0.099976)\ny = QuantizeLinear(t1, t2)", 22,
        inputs="float16[3,4] x", outputs="uint8[3,4] y", constants="float16 s = {11878}",
        **feeds(x=np.arange(12, dtype=np.float16).reshape(3, 4)),
    )  # fmt: skip
    check(
        "y = QuantizeLinear<precision=1>(x, s)", 23, "y = QuantizeLinear(x, 0.5)", 22,
        inputs="float[12] x", outputs="uint8[12] y", constants="float s = {0.5}",
    )  # fmt: skip
    why = "precision is tensor(double)"
    io = {"inputs": "float[12] x", "outputs": "uint8[12] y", "constants": "float s = {0.5}"}
    check_refused("y = QuantizeLinear<precision=11>(x, s)", 23, 22, why, **io)


# --- 24: scales that are powers of two --------------------------------------------------------------------


def scaled_by_powers(body, **io):
    source = model(body, 24, **io)
    powers = np.array([0.25, 8.0], ml_dtypes.float8_e8m0fnu)
    source.graph.initializer.append(onnx.numpy_helper.from_array(powers, "s"))
    return source


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


def test_powers_of_two_without_an_output_type_are_refused():
    source = scaled_by_powers("y = DequantizeLinear<axis=0>(x, s)", inputs="int8[2] x", outputs="float[2] y")
    assert "without output_dtype" in convert.attempt(source, {"": 23}).refusals[0].why


def test_powers_of_two_at_run_time_are_refused():
    io = {"inputs": "int8[2] x, float8e8m0 s", "outputs": "float[2] y"}
    why = "tensor(float8e8m0) does not exist at opset 23"
    check_refused("y = DequantizeLinear<output_dtype=1>(x, s)", 24, 23, why, **io)


# --- where they stand -------------------------------------------------------------------------------------


def test_inside_a_branch_with_scales_from_outside():
    source = model(
        """y = If(c) <
            then_branch = g1 () => (float[3,4] a) { a = DequantizeLinear<axis=1, block_size=3>(x, s, z) },
            else_branch = g2 () => (float[3,4] b) { b = Cast<to=1>(x) }
        >""", 21,
        inputs="bool c, int8[3,4] x", outputs="float[3,4] y", constants=BLOCKS,
    )  # fmt: skip
    result = convert.attempt(source, {"": 20})
    branch = result.model.graph.node[0].attribute[0].g
    assert [n.op_type for n in branch.node] == ["Cast", "Gather", "Cast", "Sub", "Gather", "Cast", "Mul"]
    check_values(source, result.model, {"c": np.array(True)}, rtol=0, atol=0)


def test_inside_a_function_that_binds_block_size():
    text = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
    g (int8[3,4] x) => (float[3,4] y) <float[3,2] s = {0.5, 0.25, 4, 1, 2, 8}> { y = f.blocks<size=3>(x, s) }
    <opset_import: ["" : 21], domain: "f"> blocks<size>(a, b) => (c) {
        c = DequantizeLinear<block_size: int = @size>(a, b)
    }"""
    source = onnx.parser.parse_model(text)
    result = convert.attempt(source, {"": 20})
    assert not result.refusals
    check_values(source, result.model, rtol=0, atol=0)

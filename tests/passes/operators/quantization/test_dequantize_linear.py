"""DequantizeLinear at each opset."""

import numpy as np
import onnx.helper
import pytest
from onnx import TensorProto as T
from opshift.passes.conversion import convert
from opshift.passes.errors import Refused

import opshift
from tests.passes.operators.shared.test_quantization import BLOCKS, scaled_by_powers
from tests.support import check, check_refused, check_values, evaluate, model, show

DEQUANTIZED = {"inputs": "int8[3,4] x", "outputs": "float[3,4] y"}


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
    assert [r.why for r in refusals] == [
        'the rank of "x" is unknown; try --fix-shape, or a value_info that declares it'
    ]


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
    why = "the scale has rank 2, and block_size is missing"
    check_refused("y = DequantizeLinear(x, s, z)", 21, 20, why, constants=BLOCKS, **DEQUANTIZED)


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


def test_powers_of_two_without_an_output_type_are_refused():
    source = scaled_by_powers("y = DequantizeLinear<axis=0>(x, s)", inputs="int8[2] x", outputs="float[2] y")
    assert "output_dtype is missing" in convert.attempt(source, {"": 23}).refusals[0].why


def test_powers_of_two_at_run_time_are_refused():
    io = {"inputs": "int8[2] x, float8e8m0 s", "outputs": "float[2] y"}
    why = "tensor(float8e8m0) does not exist at opset 23"
    check_refused("y = DequantizeLinear<output_dtype=1>(x, s)", 24, 23, why, **io)


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


@pytest.mark.parametrize(("kind", "values"), [("int8", [-128, 127, 0]), ("uint8", [0, 255, 3])])
def test_dequantized_by_arithmetic(kind, values):
    check(
        "y = DequantizeLinear(x, s, z)", 10,
        f"t1 = Cast<to=6>(x)\nt2 = Cast<to=6>({kind}:3)\nt3 = Sub(t1, t2)\nt4 = Cast<to=1>(t3)\ny = Mul(t4, 0.1)",
        9,
        inputs=f"{kind}[3] x", outputs="float[3] y", constants=f"float s = {{0.1}}, {kind} z = {{3}}",
        feeds={"x": np.array(values, kind)},
    )  # fmt: skip


def test_dequantized_without_a_zero_point():
    check(
        "y = DequantizeLinear(x, s)", 10, "t1 = Reshape([0.1], [])\nt2 = Cast<to=1>(x)\ny = Mul(t2, t1)", 9,
        inputs="int32[3] x", outputs="float[3] y", constants="float[1] s = {0.1}",
        feeds={"x": np.array([2**31 - 1, -5, 7], np.int32)},
    )  # fmt: skip


def test_inside_a_branch():
    source = model(
        """y = If(c) <
            then_branch = g1 () => (float[3] a) { a = DequantizeLinear(x, s) },
            else_branch = g2 () => (float[3] b) { b = Cast<to=1>(x) }
        >""", 10, inputs="bool c, int8[3] x, float s", outputs="float[3] y",
    )  # fmt: skip
    result = convert.attempt(source, {"": 9})
    feeds = {"c": np.array(True), "s": np.array(0.25, np.float32)}
    check_values(source, result.model, feeds, rtol=0, atol=0)


def test_a_zero_point_that_is_not_one_for_each_block_is_refused():
    source = model(
        "y = DequantizeLinear<block_size=1>(x, s, z)", 24, inputs="uint8[1,4] x", outputs="float[1,4] y",
        constants="float[1] s = {1}, uint8[1,1] z = {0}",
    )  # fmt: skip
    with pytest.raises(Refused, match="blocks of 1"):
        opshift.inline(source, ["DequantizeLinear"])


@pytest.mark.parametrize("size", ["5", "N"])
@pytest.mark.parametrize("held", ["float[3] s = {0.5, 2, 4}, int8[3] z = {1, -2, 3}", ""])
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_blocks_of_a_vector_are_inlined(op, held, size):
    kinds = ("float", "int8") if op == "QuantizeLinear" else ("int8", "float")
    given = "" if held else ", float[3] s, int8[3] z"
    io = {"inputs": f"{kinds[0]}[{size}] x{given}", "outputs": f"{kinds[1]}[M] y", "constants": held}
    source = model(f"y = {op}<axis=0, block_size=2>(x, s, z)", 24, **io)
    feeds = {"x": np.array([4, 7, -8, 12, 5], np.float32 if op == "QuantizeLinear" else np.int8)}
    scales, zeros = np.array([0.5, 2, 4], np.float32), np.array([1, -2, 3], np.int8)
    (found,) = evaluate(opshift.inline(source, [op]), feeds | ({} if held else {"s": scales, "z": zeros}))
    each, zero = scales[[0, 0, 1, 1, 2]], zeros[[0, 0, 1, 1, 2]]
    wanted = (
        np.rint(feeds["x"] / each) + zero if op == "QuantizeLinear" else (feeds["x"] - zero.astype(np.float32)) * each
    )
    np.testing.assert_array_equal(found, wanted.astype(found.dtype))

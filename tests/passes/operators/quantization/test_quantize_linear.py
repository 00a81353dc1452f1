"""QuantizeLinear at each opset: rounding and saturation, as the runtimes do it."""

import numpy as np
import onnx.helper
import pytest
from onnx import TensorProto as T
from opshift.passes.conversion import convert

import opshift
from tests.support import check, check_refused, check_values, model, show

LARGE = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, np.inf, -np.inf, -0.0, 127.5, 3.25], np.float32)
QUANTIZED = {"inputs": "float[3,4] x", "outputs": "int8[3,4] y"}


def feeds(**given):
    return {"feeds": {name: np.asarray(value) for name, value in given.items()}}


def test_a_vector_of_one_scale_becomes_a_scalar_at_13():
    check(
        "y = QuantizeLinear(x, s)", 12, "t1 = Reshape([0.5], [])\ny = QuantizeLinear(x, t1)", 13,
        inputs="float[3,4] x", outputs="uint8[3,4] y", constants="float[1] s = {0.5}",
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
    why = "QuantizeLinear to float8 in blocks has a zero point"
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
    why = "precision is double"
    io = {"inputs": "float[12] x", "outputs": "uint8[12] y", "constants": "float s = {0.5}"}
    check_refused("y = QuantizeLinear<precision=11>(x, s)", 23, 22, why, **io)


TIES = [0.25, 0.75, 1.25, 1.75, -0.25, -0.75, -1.25, -0.0, 0.24999999, -0.25000003, 1e30, np.inf, -np.inf]


@pytest.mark.parametrize(("kind", "zero"), [("int8", -3), ("uint8", 200)])
def test_quantized_by_arithmetic(kind, zero):
    source = model(
        "y = QuantizeLinear(x, s, z)", 10, inputs="float[N] x", outputs=f"{kind}[N] y",
        constants=f"float s = {{0.5}}, {kind} z = {{{zero}}}",
    )  # fmt: skip
    result = convert.attempt(source, {"": 9})
    assert result.grade == "exact"
    assert "QuantizeLinear" not in show(result.model)
    random = np.random.default_rng(0).standard_normal(1000) * 100
    for x in (TIES, random, np.arange(-600, 600) / 4, []):
        check_values(source, result.model, {"x": np.array(x, np.float32)}, rtol=0, atol=0)


def test_without_a_zero_point_it_is_uint8():
    source = model("y = QuantizeLinear(x, s)", 10, inputs="float[N] x, float s", outputs="uint8[N] y")
    result = convert.attempt(source, {"": 9})
    feeds = {"x": np.array(TIES, np.float32), "s": np.array(0.25, np.float32)}
    check_values(source, result.model, feeds, rtol=0, atol=0)


def test_integers_are_divided_as_floats():
    source = model("y = QuantizeLinear(x, s)", 10, inputs="int32[4] x, float s", outputs="uint8[4] y")
    assert convert.attempt(source, {"": 9}).grade == "close"


def test_a_type_that_is_unknown_is_refused():
    source = model("y = QuantizeLinear(x, s)", 10, inputs="float[4] x, float s", outputs="uint8[4] y")
    source.graph.node[0].input[0] = "u"
    source.graph.node.add(op_type="Odd", domain="d", input=["x"], output=["u"])
    source.graph.node.reverse()
    source.opset_import.add(domain="d", version=1)
    (refusal,) = convert.attempt(source, {"": 9}).refusals
    assert refusal.why == 'the type of "u" is unknown; try a value_info that declares it (made by d::Odd)'


@pytest.mark.parametrize("held", ["", "float8e5m2 z = {0}"])
def test_a_zero_point_of_float8_that_is_0_leaves_the_sign_of_a_zero(held):
    """Constant or not: onnxruntime and onnx.reference do not add it."""
    source = model(
        "q = QuantizeLinear(x, s, z) w = Cast<to=1>(q) y = Reciprocal(w)" if held else
        "z = Cast<to=19>(k) q = QuantizeLinear(x, s, z) w = Cast<to=1>(q) y = Reciprocal(w)", 20,
        inputs="float[4] x, float s, float k", outputs="float[4] y", constants=held,
    )  # fmt: skip
    made = opshift.inline(source, ["QuantizeLinear"])
    assert "QuantizeLinear" not in show(made)
    for scale in (-1, 2):
        given = {"x": np.float32([0, -0.0, 3, -5]), "s": np.float32(scale), "k": np.float32(0)}
        check_values(source, made, given, rtol=0, atol=0)

"""Elementwise arithmetic: types that the older versions do not take."""

import numpy as np
import onnx.helper
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_computes, check_refused, check_unchanged, evaluate, model

CODE = {
    **{"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "float16": 10},
    **{"double": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "float8e4m3fn": 17, "bool": 9},
}
XY = {"inputs": "float[2,3] a, float[3] b", "outputs": "float[2,3] y"}


def array(kind, values):
    return np.array(values).astype(onnx.helper.tensor_dtype_to_np_dtype(CODE[kind]))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_floats_pass_through(op):
    check_unchanged(f"y = {op}(a, b)", 7, 28, **XY)
    check_unchanged(f"y = {op}(a, b)", 28, 7, **XY)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_small_integers_wrap_in_int32_below_14(op, kind):
    big = np.array([127, 100, 3], kind)
    check(
        f"y = {op}(a, b)", 14, f"t1 = Cast<to=6>(a)\nt2 = Cast<to=6>(b)\nt3 = {op}(t1, t2)\ny = Cast<to={CODE[kind]}>(t3)",
        13, inputs=f"{kind}[3] a, {kind}[3] b", outputs=f"{kind}[3] y", feeds={"a": big, "b": np.array([127, 7, 5], kind)},
    )  # fmt: skip


EXTREMES = {
    "int8": "float",
    "uint8": "float",
    "int16": "float",
    "uint16": "float",
    "int32": "double",
    "uint32": "double",
}


@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize("kind", EXTREMES)
def test_extremes_of_integers_that_a_float_holds(op, kind):
    ends = np.iinfo(kind)
    wide = CODE[EXTREMES[kind]]
    check(
        f"y = {op}(a, b)", 12, f"t1 = Cast<to={wide}>(a)\nt2 = Cast<to={wide}>(b)\nt3 = {op}(t1, t2)\ny = Cast<to={CODE[kind]}>(t3)",
        11, inputs=f"{kind}[3] a, {kind}[3] b", outputs=f"{kind}[3] y",
        feeds={"a": np.array([ends.min, ends.max, 1], kind), "b": np.array([ends.min + 1, ends.max - 1, 1], kind)},
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["int64", "uint64"])
@pytest.mark.parametrize(("op", "beaten"), [("Max", "Less"), ("Min", "Greater")])
def test_extremes_of_64_bits_are_picked_pair_by_pair(op, beaten, kind):
    ends = np.iinfo(kind)
    check(
        f"y = {op}(a, b, c)", 12,
        f"t1 = {beaten}(a, b)\nt2 = Where(t1, b, a)\nt3 = {beaten}(t2, c)\ny = Where(t3, c, t2)", 11,
        inputs=f"{kind}[3] a, {kind}[3] b, {kind} c", outputs=f"{kind}[3] y",
        feeds={"a": np.array([ends.min, ends.max, 2**53 + 1], kind), "b": np.array([ends.min + 1, ends.max - 1, 2**53], kind)},
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
def test_relu_of_integers_is_a_maximum_below_14(kind):
    check(
        "y = Relu(x)",
        14,
        f"y = Max(x, {kind}:0)".replace("int64:", ""),
        13,
        inputs=f"{kind}[3] x",
        outputs=f"{kind}[3] y",
    )


def test_relu_of_floats_stays():
    check_unchanged("y = Relu(x)", 14, 7, inputs="float[3] x", outputs="float[3] y")


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_slopes_of_integers_are_multiplied_below_9(kind):
    after = f"""t1 = Cast<to=11>(x)
        t2 = Less(t1, const_1)
        t3 = Cast<to={CODE[kind]}>(t2)
        t4 = Sub(s, const)
        t5 = Mul(t3, t4)
        t6 = Add(t5, const)
        y = Mul(x, t6)"""
    io = {"inputs": f"{kind}[2,2] x, {kind}[2] s", "outputs": f"{kind}[2,2] y"}
    x, s = np.array([[-3, 2], [0, np.iinfo(kind).min]], kind), np.array([4, -1], kind)
    check("y = PRelu(x, s)", 9, after, 8, run=False, **io)  # onnxruntime has no such kernel at 9
    made = convert.attempt(model("y = PRelu(x, s)", 9, **io), {"": 8}).model
    np.testing.assert_array_equal(evaluate(made, {"x": x, "s": s})[0], np.where(x < 0, x * s, x))


@pytest.mark.parametrize("kind", ["uint32", "uint64"])
def test_unsigned_integers_have_no_slope_below_9(kind):
    io = {"inputs": f"{kind}[2,2] x, {kind}[2] s", "outputs": f"{kind}[2,2] y"}
    check("y = PRelu(x, s)", 9, "y = Identity(x)", 8, run=False, **io)  # onnxruntime has no such kernel at 9


def test_slopes_of_floats_stay():
    check_unchanged("y = PRelu(x, s)", 16, 7, inputs="float[2,2] x, float[2] s", outputs="float[2,2] y")


@pytest.mark.newest
@pytest.mark.parametrize("op", ["Sin", "Elu<alpha=0.5>", "HardSigmoid", "Softplus", "Selu"])
def test_bfloat16_is_computed_in_float_below_22(op):
    check(
        f"y = {op}(x)", 22, f"t1 = Cast<to=1>(x)\nt2 = {op}(t1)\ny = Cast<to=16>(t2)", 21,
        inputs="bfloat16[3] x", outputs="bfloat16[3] y", grade="close", rtol=2**-7,
    )  # fmt: skip


def test_bfloat16_does_not_exist_below_13():
    check_refused("y = Abs(x)", 13, 12, "bfloat16", inputs="bfloat16[3] x", outputs="bfloat16[3] y")


def test_rounding_bfloat16_is_exact_in_float():
    check("y = Round(x)", 22, "t1 = Cast<to=1>(x)\nt2 = Round(t1)\ny = Cast<to=16>(t2)", 21,
          inputs="bfloat16[6] x", outputs="bfloat16[6] y")  # fmt: skip


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_sums_of_16_bit_floats_are_taken_in_float(kind):
    check(
        "y = CumSum<reverse=1>(x, a)", 14, f"t1 = Cast<to=1>(x)\nt2 = CumSum<reverse=1>(t1, 0)\ny = Cast<to={CODE[kind]}>(t2)",
        13, inputs=f"{kind}[4] x", outputs=f"{kind}[4] y", constants="int64 a = {0}", grade="close",
        feeds={"x": array(kind, [1.0, 2.0, -3.0, 0.5])},
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["double", "float16"])
def test_celu_of_other_floats_is_an_elu(kind):
    check(
        "y = Celu<alpha=2.0>(x)", 28, f"t1 = Div(x, {kind}:2.0)\nt2 = Elu<alpha=1>(t1)\ny = Mul({kind}:2.0, t2)".replace("double", "float64"),
        27, inputs=f"{kind}[12] x", outputs=f"{kind}[12] y", grade="close", rtol=1e-3,
    )  # fmt: skip


def test_celu_of_floats_stays():
    check_unchanged("y = Celu(x)", 28, 12, inputs="float[3] x", outputs="float[3] y")


def test_integer_erf_has_no_defined_rounding():
    check_refused("y = Erf(x)", 9, 13, "int32", inputs="int32[3] x", outputs="int32[3] y")
    check_unchanged("y = Erf(x)", 9, 13, inputs="float[3] x", outputs="float[3] y")


@pytest.mark.parametrize(
    ("kind", "opset", "target"),
    [("float", 13, 11), ("float", 12, 7), ("double", 28, 27), ("double", 28, 10), ("float16", 28, 11)],
)
def test_celu_with_a_negative_alpha(kind, opset, target):
    dtype = {"float": np.float32, "double": np.float64, "float16": np.float16}[kind]
    x = np.array([-2, -0.5, -0.0, 0.0, 0.5, 2, np.inf, -np.inf, np.nan], dtype)
    wide, alpha = x.astype(np.float64), np.float64(np.float32(-0.3))
    with np.errstate(all="ignore"):
        expected = (np.maximum(wide, 0) + np.minimum(0, alpha * (np.exp(wide / alpha) - 1))).astype(dtype)
    check_computes(
        "y = Celu<alpha=-0.3>(x)", opset, target, expected, feeds={"x": x}, grade="close", rtol=2e-2 if kind == "float16" else 1e-5,
        inputs=f"{kind}[9] x", outputs=f"{kind}[9] y",
    )  # fmt: skip

"""Matrix products of integers, without an addend, and with other scales."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.math.test_math import CODE, array
from tests.support import check, check_refused, check_unchanged, evaluate, model


def product(kind, a, b, y):
    return {"inputs": f"{kind}[{a}] a, {kind}[{b}] b", "outputs": f"{kind}[{y}] y".replace("[]", "")}


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    ("a", "b", "y", "after"),
    [
        ("2,3", "3,4", "2,4", ["t1 = Unsqueeze<axes=[2]>(a)", "t2 = Unsqueeze<axes=[0]>(b)", "t3 = Mul(t1, t2)", "y = ReduceSum<axes=[1], keepdims=0>(t3)"]),
        ("5,2,3", "3,4", "5,2,4", ["t1 = Unsqueeze<axes=[3]>(a)", "t2 = Unsqueeze<axes=[0]>(b)", "t3 = Mul(t1, t2)", "y = ReduceSum<axes=[2], keepdims=0>(t3)"]),
        ("2,3", "5,3,4", "5,2,4", ["t1 = Unsqueeze<axes=[2]>(a)", "t2 = Unsqueeze<axes=[1]>(b)", "t3 = Mul(t1, t2)", "y = ReduceSum<axes=[2], keepdims=0>(t3)"]),
        ("3", "5,3,4", "5,4", ["t1 = Unsqueeze<axes=[1]>(a)", "t2 = Mul(t1, b)", "y = ReduceSum<axes=[1], keepdims=0>(t2)"]),
        ("N,2,3", "3", "N,2", ["t1 = Mul(a, b)", "y = ReduceSum<axes=[2], keepdims=0>(t1)"]),
        ("3", "3", "", ["t1 = Mul(a, b)", "y = ReduceSum<axes=[0], keepdims=0>(t1)"]),
    ],
)  # fmt: skip
def test_products_of_integers_are_sums_below_9(kind, a, b, y, after):
    check("y = MatMul(a, b)", 9, "\n".join(after), 8, **product(kind, a, b, y))


def test_products_of_floats_stay():
    check_unchanged("y = MatMul(a, b)", 28, 1, **product("float", "2,3", "3,4", "2,4"))


def test_products_of_integers_need_ranks():
    check_refused("y = MatMul(a, b)", 9, 8, "rank", inputs="int32[] a, int32[3,4] b", outputs="int32[] y")


GEMM = {"inputs": "{0}[2,3] a, {0}[3,4] b, {0}[4] c", "outputs": "{0}[2,4] y"}


def gemm(kind):
    return {key: text.format(kind) for key, text in GEMM.items()}


@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_a_missing_addend_is_written_out_below_11(kind):
    zero = {"float": "", "double": "float64:", "float16": "float16:"}[kind] + "-0.0"
    io = {**gemm(kind), "inputs": f"{kind}[2,3] a, {kind}[3,4] b"}
    feeds = {"a": array(kind, [[0, 1, 2], [-3, 4, 0.5]]), "b": array(kind, -np.eye(3, 4))}
    for beta in ("", "<beta=0.5>", "<beta=-2.0>"):
        made = check(f"y = Gemm{beta}(a, b)", 11, f"y = Gemm(a, b, {zero})", 10, feeds=feeds, **io)
    source = model("y = Gemm(a, b)", 11, **io)
    np.testing.assert_array_equal(*(np.signbit(evaluate(m, feeds)[0]) for m in (source, made)))


def test_an_addend_stays():
    check_unchanged("y = Gemm<beta=0.5>(a, b, c)", 28, 7, **gemm("float"))
    check_unchanged("y = Gemm<beta=0.5>(a, b, c)", 7, 28, **gemm("float"))
    check_unchanged("y = Gemm(a, b)", 11, 28, **{**gemm("float"), "inputs": "float[2,3] a, float[3,4] b"})


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_gemm_of_integers_is_written_out_below_9(kind):
    made = convert.attempt(
        model(
            "y = Gemm<transA=1, alpha=2.0, beta=-3.0>(a, b, c)",
            9,
            **{**gemm(kind), "inputs": gemm(kind)["inputs"].replace("2,3", "3,2")},
        ),
        {"": 8},
    )
    assert [n.op_type for n in made.model.graph.node] == [
        "Transpose",
        "Unsqueeze",
        "Unsqueeze",
        "Mul",
        "ReduceSum",
        "Mul",
        "Mul",
        "Add",
    ]
    assert made.grade == "exact"
    a, b, c = (
        np.array([[1, 2], [3, 4], [5, -6]], kind),
        np.arange(12, dtype=kind).reshape(3, 4),
        np.array([1, 2, 3, 4], kind),
    )
    np.testing.assert_array_equal(evaluate(made.model, {"a": a, "b": b, "c": c})[0], 2 * a.T @ b - 3 * c)


def test_gemm_of_integers_with_fractions_is_refused_below_9():
    check_refused("y = Gemm<alpha=0.5>(a, b, c)", 9, 8, "alpha=0.5", **gemm("int32"))
    check_refused("y = Gemm<beta=-1.0>(a, b, c)", 9, 8, "beta=-1", **gemm("uint32"))


def test_gemm_of_integers_without_addend():
    made = convert.attempt(
        model("y = Gemm(a, b)", 11, **{**gemm("int64"), "inputs": "int64[2,3] a, int64[3,4] b"}), {"": 8}
    ).model
    a, b = np.array([[1, 2, 3], [4, 5, 2**40]]), np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(evaluate(made, {"a": a, "b": b})[0], a @ b)


QUANTIZED = "{k}[2,4] a, {s} as, {k} az, {k}[4,3] b, {s} bs, {k} bz, {s} ys, {k} yz"
CALL = "y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz)"


def test_half_scales_are_widened_below_21():
    io = {"inputs": QUANTIZED.format(k="uint8", s="float16"), "outputs": "uint8[2,3] y"}
    feeds = {
        "a": array("uint8", [[208, 236, 0, 238], [3, 214, 255, 29]]), "b": array("uint8", np.arange(12).reshape(4, 3) * 20),
        "as": array("float16", 0.0066), "bs": array("float16", 0.00705), "ys": array("float16", 0.0107),
        "az": array("uint8", 113), "bz": array("uint8", 114), "yz": array("uint8", 118),
    }  # fmt: skip
    after = (
        "t1 = Cast<to=1>(as)\nt2 = Cast<to=1>(bs)\nt3 = Cast<to=1>(ys)\ny = QLinearMatMul(a, t1, az, b, t2, bz, t3, yz)"
    )
    check(CALL, 21, after, 20, grade="close", feeds=feeds, **io)


def test_8_bit_floats_are_multiplied_as_what_they_stand_for_below_21():
    kind = "float8e4m3fn"
    inputs = QUANTIZED.format(k=kind, s="float").replace("float as", "float[1] as")
    io = {"inputs": inputs, "outputs": f"{kind}[2,3] y"}
    after = """t1 = Reshape(as, [])
        t2 = DequantizeLinear(a, t1, az)
        t3 = DequantizeLinear(b, bs, bz)
        t4 = MatMul(t2, t3)
        y = QuantizeLinear(t4, ys, yz)"""
    check(CALL, 21, after, 20, run=False, grade="close", **io)  # no engine takes the types of 21
    low = convert.attempt(model(CALL, 21, **io), {"": 20}).model
    dtype = array("float8e4m3fn", 0).dtype
    a, b = np.array([[1, -2, 0.5, 4], [2, 2, 0, 1]]), np.arange(12).reshape(4, 3) / 2
    given = {name: np.array(v).astype(dtype) for name, v in {"a": a, "b": b, "az": 0, "bz": 0, "yz": 0}.items()}
    scales = {"as": np.array([0.5], np.float32), "bs": np.array(2, np.float32), "ys": np.array(0.25, np.float32)}
    (y,) = evaluate(low, {**given, **scales})
    np.testing.assert_array_equal(y, (a @ b * 4).astype(dtype))


def test_8_bit_floats_scaled_by_row_are_refused():
    io = {
        "inputs": QUANTIZED.format(k="float8e5m2", s="float").replace("float as", "float[2] as"),
        "outputs": "float8e5m2[2,3] y",
    }
    check_refused(CALL, 21, 20, "by row or column", **io)


def test_float_scales_stay():
    io = {"inputs": QUANTIZED.format(k="int8", s="float"), "outputs": "int8[2,3] y"}
    check_unchanged(CALL, 28, 10, **io)
    check_unchanged(CALL, 10, 28, **io)
    assert CODE["int8"] == 3

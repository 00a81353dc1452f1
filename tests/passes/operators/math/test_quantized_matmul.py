"""Products of quantized matrices, exact up to the last rounding, and with other scales."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.elements import CODE, array
from tests.support import check, check_computes, check_refused, check_unchanged, evaluate, model

RNG = np.random.default_rng(0)


def eight_bits(kind, *shape):
    ends = np.iinfo(kind)
    return RNG.integers(ends.min, ends.max, shape, dtype=kind, endpoint=True)


@pytest.mark.parametrize("a_zero", [None, (), (1,), (3,)])
@pytest.mark.parametrize("b_zero", [None, (), (4,)])
@pytest.mark.parametrize(("a_kind", "b_kind"), [("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")])
def test_products_of_integers(a_kind, b_kind, a_zero, b_zero):
    feeds = {"a": eight_bits(a_kind, 2, 3, 100), "b": eight_bits(b_kind, 2, 100, 4)}
    inputs, operands = f"{a_kind}[2,3,100] a, {b_kind}[2,100,4] b", ["a", "b", "", ""]
    a, b = (feeds[name].astype(np.int32) for name in "ab")
    for index, (name, kind, shape) in enumerate((("c", a_kind, a_zero), ("d", b_kind, b_zero))):
        if shape is not None:
            feeds[name] = np.asarray(eight_bits(kind, *shape))
            inputs += f", {kind}{list(shape) if shape else ''} {name}"
            operands[2 + index] = name
    a = a - (feeds["c"].astype(np.int32).reshape(-1, 1) if a_zero is not None else 0)
    b = b - (feeds["d"].astype(np.int32) if b_zero is not None else 0)
    call = ", ".join(operands).rstrip(", ")
    check_computes(f"y = MatMulInteger({call})", 10, 9, a @ b, feeds=feeds, inputs=inputs, outputs="int32[2,3,4] y")


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("rows", [False, True])
def test_products_of_quantized(kind, rows):
    shape, dims = ((3,), "[3]") if rows else ((), "")
    feeds = {"a": eight_bits("uint8", 3, 5), "b": eight_bits("int8", 5, 4), "az": np.asarray(eight_bits("uint8", *shape)),
             "bz": np.array(-3, np.int8), "as": np.asarray(RNG.uniform(0.01, 0.1, shape).astype(np.float32)),
             "bs": np.array(0.02, np.float32), "ys": np.array(0.7, np.float32), "yz": np.array(5, kind)}  # fmt: skip
    column = (-1, 1) if rows else ()
    total = (feeds["a"].astype(int) - feeds["az"].astype(int).reshape(column)) @ (feeds["b"].astype(int) + 3)
    ratio = total * feeds["as"].astype(float).reshape(column) * 0.02 / 0.7
    ends = np.iinfo(kind)
    expected = np.clip(np.round(ratio) + 5, ends.min, ends.max).astype(kind)
    check_computes(
        "y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz)", 10, 9, expected, feeds=feeds, grade="close", atol=1,
        inputs=f"uint8[3,5] a, float{dims} as, uint8{dims} az, int8[5,4] b, float bs, int8 bz, float ys, {kind} yz",
        outputs=f"{kind}[3,4] y",
    )  # fmt: skip


@pytest.mark.parametrize("opset", [12, 13, 24])
def test_scales_of_as_many_rows_as_the_run_tells(opset):
    inputs = "uint8[3,5] a, float[N] as, uint8[N] az, int8[5,4] b, float bs, int8 bz, float[M] ys, uint8 yz"
    source = model(CALL, opset, inputs=inputs, outputs="uint8[3,4] y")
    made = convert.attempt(source, {"": opset}, ops={("", "QLinearMatMul")}).model
    onnx.checker.check_model(made, full_check=True)
    feeds = {"a": eight_bits("uint8", 3, 5), "b": eight_bits("int8", 5, 4), "az": eight_bits("uint8", 3),
             "bz": np.array(-3, np.int8), "as": np.float32([0.01, 0.05, 0.09]), "bs": np.array(0.02, np.float32),
             "ys": np.float32([0.7]), "yz": np.array(5, np.uint8)}  # fmt: skip
    total = (feeds["a"].astype(int) - feeds["az"].astype(int)[:, None]) @ (feeds["b"].astype(int) + 3)
    expected = np.clip(np.round(total * feeds["as"].astype(float)[:, None] * 0.02 / 0.7) + 5, 0, 255)
    np.testing.assert_allclose(evaluate(made, feeds)[0], expected, atol=1)


@pytest.mark.parametrize("opset", [12, 13, 24])
def test_a_scale_of_the_only_row_as_the_run_tells(opset):
    inputs = "uint8[K] a, float[N] as, uint8[N] az, int8[5,4] b, float bs, int8 bz, float[M] ys, uint8 yz"
    source = model(CALL, opset, inputs=inputs, outputs="uint8[L] y")
    made = convert.attempt(source, {"": opset}, ops={("", "QLinearMatMul")}).model
    onnx.checker.check_model(made, full_check=True)
    feeds = {"a": eight_bits("uint8", 5), "b": eight_bits("int8", 5, 4), "az": np.uint8([100]), "bz": np.array(-3, np.int8),
             "as": np.float32([0.05]), "bs": np.array(0.02, np.float32), "ys": np.float32([0.7]), "yz": np.array(5, np.uint8)}  # fmt: skip
    total = (feeds["a"].astype(int) - 100) @ (feeds["b"].astype(int) + 3)
    expected = np.clip(np.round(total * 0.05 * 0.02 / 0.7) + 5, 0, 255)
    assert expected.shape == (4,)
    actual = evaluate(made, feeds)[0]
    assert actual.shape == (4,)
    np.testing.assert_allclose(actual, expected, atol=1)


VECTORS = [
    ((5,), (), (5,), ()), ((5,), (1,), (5,), (1,)), ((5,), (1,), (5, 4), (1,)), ((5,), (1,), (5, 4), (4,)), ((5,), (1,), (5, 4), (1, 4)),
    ((5,), (), (2, 5, 4), (2, 1, 4)), ((3, 5), (1,), (5,), (1,)), ((3, 5), (3,), (5,), (1,)), ((3, 5), (3, 1), (5,), ()),
    ((2, 3, 5), (2, 3, 1), (5,), (1,)), ((1, 5), (1,), (5,), (1,)),
    pytest.param((0, 5), (0,), (5,), (1,), marks=pytest.mark.newest),  # onnxruntime 1.23 multiplies no rows by a vector
]  # fmt: skip


def axes(name, shape, told):
    sizes = shape if told else [f"{name}{axis}" for axis in range(len(shape))]
    return f"[{','.join(map(str, sizes))}]" if shape else ""


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("opset", [9, 10, 12, 24])
@pytest.mark.parametrize(("a", "a_scales", "b", "b_scales"), VECTORS)
def test_a_product_lacks_an_axis_for_each_vector(a, a_scales, b, b_scales, opset, told):
    last = (1,) if a_scales else ()
    shapes = {"a": a, "as": a_scales, "az": a_scales, "b": b, "bs": b_scales, "bz": b_scales, "ys": last, "yz": last}
    kinds = {name: "float" if name in ("as", "bs", "ys") else "uint8" for name in shapes}
    feeds = {name: np.asarray(eight_bits("uint8", *shape) // 2, np.uint8) for name, shape in shapes.items()}
    feeds |= {name: np.asarray(0.5 + feeds[name] / 100, np.float32) for name in ("as", "bs")}
    feeds |= {"ys": np.full(last, 300, np.float32), "yz": np.full(last, 9, np.uint8)}
    column = (-1, 1) if len(a_scales) == 1 and len(a) > 1 else a_scales
    by_row = {name: feeds[name].reshape(column) for name in ("as", "az")}
    left = (feeds["a"].astype(float) - by_row["az"]) * by_row["as"]
    expected = np.round(left @ ((feeds["b"].astype(float) - feeds["bz"]) * feeds["bs"]) / 300) + 9
    inputs = ", ".join(f"{kind}{axes(name, shapes[name], told)} {name}" for name, kind in kinds.items())
    shape = np.shape(expected)
    source = model(CALL, max(opset, 10), inputs=inputs, outputs=f"uint8{axes('y', shape, told)} y")
    low = convert.attempt(source, {"": opset}, ops={("", "QLinearMatMul")}).model
    onnx.checker.check_model(low, full_check=True)
    (y,) = evaluate(low, feeds)
    assert y.shape == shape
    np.testing.assert_allclose(y, np.clip(expected, 0, 255), atol=1)


def test_ratios_are_rounded_to_even_and_cut_off():
    a = np.array([[1], [3], [5], [255]], np.uint8)  # 0.5, 1.5, 2.5, 127.5
    one = {"s": np.array(1, np.float32), "z": np.array(0, np.uint8)}
    check_computes(
        "y = QLinearMatMul(a, s, z, b, s, z, ys, yz)", 10, 9, np.array([[200], [202], [202], [255]], np.uint8), grade="close",
        feeds={"a": a, "b": np.array([[1]], np.uint8), "ys": np.array(2, np.float32), "yz": np.array(200, np.uint8), **one},
        inputs="uint8[4,1] a, uint8[1,1] b, float s, uint8 z, float ys, uint8 yz", outputs="uint8[4,1] y",
    )  # fmt: skip


def test_nodes_without_zero_points():
    check(
        "y = MatMulInteger(a, b)", 10, "t1 = Cast<to=6>(a)\nt2 = Cast<to=6>(b)\ny = MatMul(t1, t2)", 9,
        inputs="uint8[2,3] a, int8[3,2] b", outputs="int32[2,2] y",
    )  # fmt: skip


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
    check_refused(CALL, 21, 20, "for each row or column", **io)


def test_float_scales_stay():
    io = {"inputs": QUANTIZED.format(k="int8", s="float"), "outputs": "int8[2,3] y"}
    check_unchanged(CALL, 28, 10, **io)
    check_unchanged(CALL, 10, 28, **io)
    assert CODE["int8"] == 3

"""Pooling: rounding up, dilations, and padding that counts."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_refused, check_unchanged, check_values, model, show

RANDOM = np.random.default_rng(7)
IMAGE = {"inputs": "float[1,2,5,6] x", "outputs": "float[1,2,A,B] y"}
ANY_SIZE = {"inputs": "float[N,C,H,W] x", "outputs": "float[N,C,A,B] y"}
FEEDS = {"x": RANDOM.normal(size=(1, 2, 5, 6)).astype(np.float32)}
WITH_INDICES = {"inputs": IMAGE["inputs"], "outputs": "float[1,2,A,B] y, int64[1,2,A,B] i"}


# --- nothing to do ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("attributes", ["", "pads=[1,0,0,1], ", 'auto_pad="SAME_LOWER", ', "strides=[2,2], "])
def test_what_every_version_says_stays(op, attributes):
    node = f"y = {op}<{attributes}kernel_shape=[2,2]>(x)"
    check_unchanged(node, 2, 28, **IMAGE)
    check_unchanged(node, 28, 2, **IMAGE)


@pytest.mark.parametrize(
    ("op", "since", "extra"),
    [
        ("AveragePool", 7, "count_include_pad=0"),
        ("AveragePool", 10, "ceil_mode=0"),
        ("AveragePool", 19, "dilations=[1,1]"),
        ("MaxPool", 8, "storage_order=0"),
        ("MaxPool", 10, "ceil_mode=0"),
        ("MaxPool", 10, "dilations=[1,1]"),
        ("LpPool", 18, "ceil_mode=0"),
        ("LpPool", 18, "dilations=[1,1]"),
    ],
)
def test_a_new_attribute_at_its_default_is_dropped(op, since, extra):
    before = f"y = {op}<kernel_shape=[2, 2], {extra}>(x)"
    plain = f"y = {op}<kernel_shape=[2, 2]>(x)"
    check(before, since, plain, since - 1, feeds=FEEDS, rtol=1e-6, **IMAGE)


def test_a_dilated_window_of_one_element_has_no_gaps():
    before = 'y = MaxPool<auto_pad="SAME_UPPER", dilations=[3,2], kernel_shape=[1,1], strides=[1,1]>(x)'
    after = "y = MaxPool<auto_pad=SAME_UPPER, kernel_shape=[1, 1], strides=[1, 1]>(x)"
    check(before, 10, after, 9, feeds=FEEDS, **ANY_SIZE)


# --- rounding up --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "attributes", "pads"),
    [
        ("5", "strides=[2]", "[0, 1]"),
        ("6", "strides=[2]", None),  # nothing to round
        ("W", "strides=[2]", "[0, 1]"),
        ("5", "strides=[1]", None),
        ("W", "strides=[1]", None),
        ("8", "strides=[3], pads=[1,1]", "[1, 1]"),
        ("4", "strides=[4]", None),  # the last window would start behind the data
        ("6", "strides=[2], pads=[0,1]", "[0, 1]"),  # it would start in the padding
        ("3", "strides=[2], pads=[1,0]", "[1, 0]"),
    ],
)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_more_padding_rounds_up_below_10(op, size, attributes, pads):
    io = {"inputs": f"float[1,1,{size}] x", "outputs": "float[1,1,A] y"}
    source = model(f"y = {op}<ceil_mode=1, kernel_shape=[2], {attributes}>(x)", 10, **io)
    converted = convert.attempt(source, {"": 9}).model
    assert converted is not None
    (shown,) = show(converted).splitlines()
    assert "ceil_mode" not in shown
    assert (f"pads={pads}" in shown) if pads else ("pads=" not in shown.replace("pads=[1, 1]", ""))
    number = int(size) if size.isdigit() else 5
    x = RANDOM.normal(size=(1, 1, number)).astype(np.float32)
    check_values(source, converted, {"x": x}, rtol=1e-6, atol=0)


@pytest.mark.newest
def test_padding_that_counts_becomes_data_and_the_rest_does_not_count():
    check(
        "y = AveragePool<ceil_mode=1, count_include_pad=1, kernel_shape=[2,2], pads=[1,0,0,0], strides=[2,2]>(x)", 10,
        "t1 = Pad<pads=[0, 0, 1, 0, 0, 0, 0, 0], value=0>(x)\n"
        "y = AveragePool<kernel_shape=[2, 2], pads=[0, 0, 0, 1], strides=[2, 2]>(t1)", 9,
        inputs="float[1,2,5,5] x", outputs="float[1,2,A,B] y", rtol=1e-6,
    )  # fmt: skip
    check(
        "y = AveragePool<ceil_mode=1, count_include_pad=1, kernel_shape=[2,2], strides=[2,2]>(x)", 10,
        "y = AveragePool<kernel_shape=[2, 2], pads=[0, 0, 1, 1], strides=[2, 2]>(x)", 9,
        inputs="float[1,2,5,5] x", outputs="float[1,2,A,B] y", rtol=1e-6,
    )  # fmt: skip


def test_same_padding_never_rounded():
    before = 'y = MaxPool<auto_pad="SAME_UPPER", ceil_mode=1, kernel_shape=[2,2], strides=[2,2]>(x)'
    after = "y = MaxPool<auto_pad=SAME_UPPER, kernel_shape=[2, 2], strides=[2, 2]>(x)"
    check(before, 10, after, 9, feeds=FEEDS, **ANY_SIZE)


def test_what_cannot_be_rounded_is_refused():
    before = "y = MaxPool<{} ceil_mode=1, kernel_shape=[2,2], strides=[2,2]>(x)"
    valid = before.format('auto_pad="VALID",')
    check_refused(valid, 10, 9, "runtimes disagree on the result of auto_pad=VALID with ceil_mode=1", **IMAGE)
    after = "y = MaxPool<auto_pad=VALID, kernel_shape=[2, 2], strides=[2, 2]>(x)"
    check(valid, 10, after, 9, inputs="float[1,2,4,6] x", outputs="float[1,2,2,3] y")
    padded = before.format("pads=[0,0,1,1],")
    check_refused(padded, 10, 9, "ceil_mode=1 needs the size of axis 2, which is unknown", **ANY_SIZE)
    check_refused(before.format('auto_pad="same",'), 10, 9, "auto_pad=same", **IMAGE)
    text = 'y = AveragePool<auto_pad="same", count_include_pad=1, kernel_shape=[2,2]>(x)'
    check_refused(text, 7, 6, "auto_pad=same; supported: NOTSET, VALID, SAME_UPPER or SAME_LOWER", **IMAGE)


def test_windows_in_the_padding_are_spelled_out_below_22():
    io = {"inputs": "float[1,1,2,2] x", "outputs": "float[1,1,1,1] y"}
    before = "y = {}<ceil_mode=1, kernel_shape=[2,2], pads=[0,0,1,1], strides=[2,2]>(x)"
    check_unchanged(before.format("MaxPool"), 10, 28, inputs="float[1,1,5,5] x", outputs="float[1,1,3,3] y")
    check(
        "y = MaxPool<ceil_mode=1, kernel_shape=[1,1], strides=[2,2]>(x)", 22,
        "y = MaxPool<kernel_shape=[1, 1], strides=[2, 2]>(x)", 12, **io,
    )  # fmt: skip
    check(
        before.format("AveragePool"), 22, "y = AveragePool<kernel_shape=[2, 2], pads=[0, 0, 1, 1], strides=[2, 2]>(x)", 21, **io,
    )  # fmt: skip
    check(
        "y = AveragePool<ceil_mode=1, count_include_pad=1, kernel_shape=[2,2], pads=[1,1,2,2], strides=[3,3]>(x)", 22,
        "t1 = Pad(x, [0, 0, 1, 1, 0, 0, 0, 0], 0.0)\n"
        "y = AveragePool<kernel_shape=[2, 2], pads=[0, 0, 0, 0], strides=[3, 3]>(t1)", 21,
        run=False, **io,  # no engine takes padding as long as the kernel
    )  # fmt: skip
    text = "y = MaxPool<ceil_mode=1, dilations=[3,1], kernel_shape=[2,1], pads=[1,0,0,0], strides=[3,4]>(x)"
    # axis 2 would need padding as long as the kernel, which engines refuse
    check_unchanged(text, 22, 12, inputs="float[1,1,4,8] x", outputs="float[1,1,2,2] y")
    check(
        "y = LpPool<ceil_mode=1, kernel_shape=[1,1], strides=[2,2]>(x)", 22,
        "y = LpPool<kernel_shape=[1, 1], strides=[2, 2]>(x)", 17, **io,
    )  # fmt: skip


def test_pads_beside_auto_pad_go_where_inference_begins():
    io = {"inputs": "float[1,1,4,4] x", "outputs": "float[1,1,4,4] y"}
    before = 'y = LpPool<auto_pad="SAME_UPPER", kernel_shape=[3,3], pads=[2,2,2,2]>(x)'
    check(before, 1, "y = LpPool<auto_pad=SAME_UPPER, kernel_shape=[3, 3]>(x)", 2, run=False, **io)  # no kernels of 1


@pytest.mark.parametrize(("op", "since"), [("MaxPool", 10), ("AveragePool", 10), ("LpPool", 18)])
def test_pads_beside_auto_pad_go_with_ceil_mode_by_which_inference_rounds_up(op, since):
    io = {"inputs": "float[1,1,7,6] x", "outputs": "float[1,1,3,3] y"}
    before = f'y = {op}<auto_pad="SAME_UPPER", ceil_mode=1, kernel_shape=[3,3], pads=[0,0,0,0], strides=[3,2]>(x)'
    after = f"y = {op}<auto_pad=SAME_UPPER, kernel_shape=[3, 3], strides=[3, 2]>(x)"
    check(before, since, after, since - 1, **io)


def test_pads_beside_auto_pad_that_inference_alone_reads_go_below_22():
    """Up to 21 it rounds up into them, so that a size that is told of the result, as it is, would be another one."""
    io = {"inputs": "float[1,1,2,2] x", "outputs": "float[1,1,1,1] y"}
    before = 'y = AveragePool<auto_pad="SAME_LOWER", ceil_mode={}, kernel_shape=[3,3]{}, strides=[3,3]>(x)'
    check_unchanged(before.format(0, ", pads=[1,1,1,1]"), 22, 21, **io)
    check(
        before.format(1, ", pads=[1,1,1,1]"),
        22,
        before.format(1, "").replace('"', "").replace("[3,3]", "[3, 3]"),
        21,
        **io,
    )


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    ("pad", "kernel", "stride", "size", "count", "goes"),
    [
        ("SAME_UPPER", 2, 3, 3, 1, True),
        ("SAME_LOWER", 2, 4, 5, 2, True),
        ("SAME_UPPER", 2, 2, 5, 3, False),
        ("VALID", 1, 2, 2, 1, True),
        ("VALID", 2, 4, 4, 1, True),
        ("VALID", 2, 3, 5, 2, False),
        ("VALID", 2, 2, 5, 3, False),  # a window that runtimes compute
    ],
)
def test_rounding_up_goes_below_22_where_inference_alone_makes_windows_of_it(
    op, pad, kernel, stride, size, count, goes
):
    """The size that is told of the result is what inference says at 22, and what runtimes compute at both."""
    io = {"inputs": f"float[1,1,{size}] x", "outputs": f"float[1,1,{count}] y"}
    node = f"y = {op}<auto_pad={{}}, {{}}kernel_shape=[{kernel}], strides=[{stride}]>(x)"
    before, after = node.format(f'"{pad}"', "ceil_mode=1, "), node.format(pad, "" if goes else "ceil_mode=1, ")
    check(before, 22, after, 21, feeds={"x": RANDOM.normal(size=(1, 1, size)).astype(np.float32)}, **io)


@pytest.mark.parametrize(("op", "size"), [("MaxPool", 0), ("AveragePool", 0), ("MaxPool", 3)])
def test_rounding_up_goes_at_22_where_inference_makes_a_window_of_no_data(op, size):
    io = {"inputs": f"float[1,0,4,{size}] x", "outputs": f"float[1,0,2,{(size + 1) // 2}] y"}
    node = f'y = {op}<auto_pad="SAME_LOWER", ceil_mode=1, kernel_shape=[3,3], strides=[2,2]>(x)'
    onnx.checker.check_model(result := convert.attempt(model(node, 19, **io), {"": 22}).model, full_check=True)
    assert ("ceil_mode" not in show(result)) == (not size)


# --- dilations ----------------------------------------------------------------------------------------------------


def test_the_largest_of_shifted_slices():
    check(
        "y = MaxPool<dilations=[2,1], kernel_shape=[2,2], pads=[1,1,1,1], strides=[2,1]>(x)", 10,
        """t1 = Pad<pads=[0, 0, 1, 0, 0, 0, 1, 0], value=-inf>(x)
        t2 = Slice<axes=[2], ends=[-2], starts=[0]>(t1)
        t3 = Slice<axes=[2], ends=[9223372036854775807], starts=[2]>(t1)
        t4 = Max(t2, t3)
        y = MaxPool<kernel_shape=[1, 2], pads=[0, 1, 0, 1], strides=[2, 1]>(t4)""", 9,
        feeds=FEEDS, **ANY_SIZE,
    )  # fmt: skip


def test_dilations_alone_leave_no_pooling():
    check(
        "y = MaxPool<dilations=[2], kernel_shape=[2]>(x)", 10,
        """t1 = Slice<axes=[2], ends=[-2], starts=[0]>(x)
        t2 = Slice<axes=[2], ends=[9223372036854775807], starts=[2]>(x)
        y = Max(t1, t2)""", 9,
        feeds={"x": FEEDS["x"][0]}, inputs="float[1,C,W] x", outputs="float[1,C,A] y",
    )  # fmt: skip


def test_norms_of_shifted_slices():
    check(
        "y = LpPool<dilations=[1,3], kernel_shape=[2,2], p=1>(x)", 18,
        """t1 = Slice(x, [0], [-3], [3])
        t2 = Slice(x, [3], [9223372036854775807], [3])
        t3 = Abs(t1)
        t4 = Abs(t2)
        t5 = Sum(t3, t4)
        y = LpPool<kernel_shape=[2, 1], p=1, pads=[0, 0, 0, 0]>(t5)""", 17,
        feeds=FEEDS, rtol=1e-5, grade="close", **ANY_SIZE,
    )  # fmt: skip


def test_averages_of_shifted_slices_count_the_data():
    check(
        "y = AveragePool<dilations=[2,1], kernel_shape=[2,2], pads=[1,0,0,0]>(x)", 19,
        """t1 = Pad(x, [0, 0, 1, 0, 0, 0, 0, 0], 0.0)
        t2 = Slice(t1, [0], [-2], [2])
        t3 = Slice(t1, [2], [9223372036854775807], [2])
        t4 = Sum(t2, t3)
        t5 = Div(t4, [[1.0], [2.0], [2.0], [2.0]])
        y = AveragePool<kernel_shape=[1, 2], pads=[0, 0, 0, 0]>(t5)""", 18,
        feeds=FEEDS, rtol=1e-5, atol=1e-6, grade="close", **IMAGE,
    )  # fmt: skip


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("io", [IMAGE, ANY_SIZE])
@pytest.mark.parametrize(
    "shape", ["dilations=[2,3], kernel_shape=[2,2]", "dilations=[1,2], kernel_shape=[2,3], strides=[2,3]"]
)
@pytest.mark.parametrize("pads", ["", ", pads=[1,1,0,1]"])
def test_dilated_windows_in_every_combination(op, count_include_pad, ceil_mode, io, shape, pads):
    since = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    counted = f", count_include_pad={count_include_pad}" if op == "AveragePool" else ""
    text = f"y = {op}<{shape}{pads}{counted}, ceil_mode={ceil_mode}>(x)"
    source = model(text, since, **io)
    converted = convert.attempt(source, {"": since - 1}).model
    assert converted is not None
    assert "dilations" not in show(converted)
    check_values(source, converted, FEEDS, rtol=1e-5, atol=1e-6)


def test_what_dilations_cannot_say_is_refused():
    node = "MaxPool<{} dilations=[2,2], kernel_shape=[2,2]>(x)"
    same = f"y = {node.format('auto_pad=' + chr(34) + 'SAME_UPPER' + chr(34) + ',')}"
    check_refused(same, 10, 9, "runtimes disagree on the result of auto_pad=SAME_UPPER with dilations", **IMAGE)
    small = {"inputs": "float[1,2,2,6] x", "outputs": "float[1,2,A,B] y"}
    check_refused(f"y = {node.format('')}", 10, 9, "the pooling window is larger than axis 2", **small)


# --- padding, indices, types --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "pads"),
    [
        ("pads=[1,0,0,2]", [1, 0, 0, 2]),
        ('auto_pad="SAME_UPPER"', [0, 0, 1, 1]),
        ('auto_pad="SAME_LOWER"', [1, 1, 0, 0]),
        ('auto_pad="SAME_UPPER", strides=[2,4]', [0, 0, 1, 0]),
    ],
)
def test_padding_that_counts_becomes_data_below_7(attributes, pads):
    source = model(f"y = AveragePool<{attributes}, count_include_pad=1, kernel_shape=[2,2]>(x)", 7, **IMAGE)
    converted = convert.attempt(source, {"": 6}).model
    assert converted is not None
    begin, end = pads[:2], pads[2:]
    first, second = show(converted).splitlines()
    assert first == f"t1 = Pad<pads={[0, 0, *begin, 0, 0, *end]}, value=0>(x)"
    assert "pads=[0, 0, 0, 0]" in second
    assert "auto_pad" not in second
    check_values(source, converted, FEEDS, rtol=1e-5, atol=1e-6)


def test_padding_of_unknown_size_is_refused_below_7():
    node = 'y = AveragePool<auto_pad="SAME_UPPER", count_include_pad=1, kernel_shape=[2,2]{}>(x)'
    check_refused(
        node.format(", strides=[2,2]"),
        7,
        6,
        "auto_pad=SAME_UPPER needs the size of axis 2, which is unknown",
        **ANY_SIZE,
    )
    source = model(node.format(""), 7, **ANY_SIZE)
    converted = convert.attempt(source, {"": 6}).model
    assert converted is not None
    check_values(source, converted, FEEDS, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("attributes", ["", 'auto_pad="VALID", ', "pads=[0,0,0,0], "])
def test_padding_that_is_not_there_does_not_count(attributes):
    source = model(f"y = AveragePool<{attributes}count_include_pad=1, kernel_shape=[2,2]>(x)", 7, **ANY_SIZE)
    converted = convert.attempt(source, {"": 6}).model
    assert converted is not None
    assert [node.op_type for node in converted.graph.node] == ["AveragePool"]
    check_values(source, converted, FEEDS, rtol=1e-5, atol=1e-6)


def test_indices_are_dropped_where_nobody_reads_them():
    before = "y, i = MaxPool<kernel_shape=[2,2], storage_order=1>(x)"
    check(before, 8, "y = MaxPool<kernel_shape=[2, 2]>(x)", 7, feeds=FEEDS, **IMAGE)


@pytest.mark.newest  # older kernels take the least number for -inf
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ("N,C,5,6", "kernel_shape=[2,2]"),
        ("2,3,5,6", "kernel_shape=[3,2], strides=[2,1], pads=[2,1,1,1]"),
        ("2,3,5,6", 'kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_LOWER"'),
        ("N,3,7", "kernel_shape=[3], strides=[2]"),
        ("N,2,3,4,3", "kernel_shape=[2,1,2], strides=[1,2,1], pads=[1,0,0,0,0,1]"),
    ],
)
def test_indices_of_maxima_are_looked_up_below_8(shape, how, order):
    rank = shape.count(",") + 1
    dims = [n if n.isdigit() else "2" for n in shape.split(",")]
    x = np.random.default_rng(0).integers(-2, 3, list(map(int, dims))).astype(np.float32)  # many are equal
    x.flat[:9] = -np.inf
    x.flat[12] = np.inf
    io = {
        "inputs": f"float[{shape}] x",
        "outputs": f"float[{','.join('ABCDE'[:rank])}] y, int64[{','.join('ABCDE'[:rank])}] i",
    }
    check_down(f"y, i = MaxPool<{how}, storage_order={order}>(x)", 8, 7, feeds={"x": x}, **io)


@pytest.mark.newest  # older kernels end the windows of ceil_mode elsewhere
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("kind", ["float", "double", "uint8"])
def test_indices_of_dilated_windows_are_looked_up_below_10(kind, ceil, order):
    how = f"ceil_mode={ceil}, dilations=[2,1], kernel_shape=[2,3], strides=[2,2], pads=[1,0,0,1], storage_order={order}"
    x = (
        np.random.default_rng(1)
        .integers(0, 5, (2, 3, 6, 7))
        .astype({"uint8": np.uint8, "float": np.float32, "double": np.float64}[kind])
    )
    io = {"inputs": f"{kind}[2,3,6,7] x", "outputs": f"{kind}[2,3,A,B] y, int64[2,3,A,B] i"}
    check_down(f"y, i = MaxPool<{how}>(x)", 12 if kind == "uint8" else 10, 9, 7, feeds={"x": x}, **io)


def test_indices_that_cannot_be_looked_up_are_refused():
    io = {"inputs": "float[N,C,H,6] x", "outputs": "float[N,C,A,B] y, int64[N,C,A,B] i"}
    check_refused("y, i = MaxPool<kernel_shape=[2,2]>(x)", 8, 7, "the size of the data is unknown", **io)
    io["inputs"] = "float[1,1,2048,2048] x"
    check_refused("y, i = MaxPool<kernel_shape=[2,2]>(x)", 8, 7, "[2047, 2047] windows of 4 elements", **io)


def test_rounding_up_leaves_indices_alone():
    check(
        "y, i = MaxPool<ceil_mode=1, kernel_shape=[2,2], storage_order=1, strides=[2,2]>(x)", 10,
        "y, i = MaxPool<kernel_shape=[2, 2], pads=[0, 0, 1, 0], storage_order=1, strides=[2, 2]>(x)", 9,
        feeds=FEEDS, **WITH_INDICES,
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "number"), [("uint8", 2), ("int8", 3)])
def test_bytes_are_pooled_as_floats_below_12(kind, number):
    after = (
        f"t1 = Cast<to=1>(x)\nt2, i = MaxPool<kernel_shape=[2, 2], pads=[1, 0, 0, 0]>(t1)\ny = Cast<to={number}>(t2)"
    )
    check(
        "y, i = MaxPool<kernel_shape=[2,2], pads=[1,0,0,0]>(x)", 12, after, 11,
        inputs=f"{kind}[1,2,5,5] x", outputs=f"{kind}[1,2,5,4] y, int64[1,2,5,4] i",
    )  # fmt: skip


@pytest.mark.parametrize(("op", "grade"), [("MaxPool", "exact"), ("AveragePool", "close")])
def test_bfloat16_is_pooled_in_float_below_22(op, grade):
    after = f"t1 = Cast<to=1>(x)\nt2 = {op}<kernel_shape=[2, 2]>(t1)\ny = Cast<to=16>(t2)"
    check(
        f"y = {op}<kernel_shape=[2,2]>(x)", 22, after, 21, grade=grade, run=False,  # no engine has the kernel
        inputs="bfloat16[1,2,4,4] x", outputs="bfloat16[1,2,3,3] y",
    )  # fmt: skip

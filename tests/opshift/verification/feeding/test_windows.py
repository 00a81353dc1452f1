"""Which windows there are, what they ask for, and which of them no run fills."""

import pytest

from opshift.verification.feeding.windows import infer_shapes, windows
from tests.support import model

IO = {"inputs": "float[N,2,H,W] x", "outputs": "float y"}


def of(body, constants="", opset=17, **io):
    return model(body, opset, constants=constants, **{**IO, **io})


def numbers(*dims):
    count = 1
    for size in dims:
        count *= size
    return ", ".join(["1"] * count)


KERNEL = f"float[2,2,3,5] w = {{{numbers(2, 2, 3, 5)}}}"


@pytest.mark.parametrize(
    ("body", "constants", "axis", "sizes"),
    [
        ("y = Conv(x, w)", KERNEL, 2, (3, 5)),
        ("y = Conv<kernel_shape=[3,5]>(x, z)", "", 2, (3, 5)),
        ("y = Conv<dilations=[2,3]>(x, w)", KERNEL, 2, (5, 13)),
        ("c = Constant<value=float[1,1,1,2] {1, 2}>() y = Conv(x, c)", "", 2, (1, 2)),
        ("c = DequantizeLinear(q, s) y = Conv(x, c)", "uint8[1,1,1,2] q = {1, 2}, float s = {1}", 2, (1, 2)),
        ("y = QLinearConv(x, s, z, q, s, z, s, z)", "uint8[1,1,1,2] q = {1, 2}, float s = {1}", 2, (1, 2)),
        ("y = ConvTranspose<strides=[2,2]>(x, w)", KERNEL, 2, (2, 3)),
        ("y = MaxPool<kernel_shape=[2,4]>(x)", "", 2, (2, 4)),
        ("y = AveragePool<kernel_shape=[2,4]>(x)", "", 2, (2, 4)),
        ("y = MaxPool<kernel_shape=[2,4], dilations=[3,1]>(x)", "", 2, (4, 4)),
        ('y = Resize<mode="cubic">(x, , s)', "float[4] s = {1, 1, 2, 2}", 2, (4, 4)),
        ('y = Resize<mode="linear">(x, , s)', "float[4] s = {1, 1, 2, 2}", 2, (2, 2)),
        ('y = Pad<mode="reflect">(x, p)', "int64[8] p = {0, 0, 3, 0, 0, 0, 1, 5}", 0, (1, 1, 4, 6)),
        ("y = STFT(x, t, v)", "int64 t = {4}, float[6] v = {1, 2, 3, 4, 5, 6}", 1, (6,)),
        ("y = STFT(x, t, , f)", "int64 t = {4}, int64 f = {8}", 1, (8,)),
    ],
)
def test_what_windows_see_at_once(body, constants, axis, sizes):
    (found,) = windows(of(body, constants))
    assert (found.value, found.axis, found.sizes) == ("x", axis, sizes)


@pytest.mark.parametrize(
    "body",
    [
        "y = Relu(x)",
        "y = Conv<kernel_shape=[1,1]>(x, z)",
        "y = Conv(x, z)",
        "y = GlobalAveragePool(x)",
        'y = Resize<mode="nearest">(x, , s)',
        "y = Pad(x, p)",
        'y = Pad<mode="reflect">(x, z)',
    ],
)
def test_what_is_no_window(body):
    assert windows(of(body, "float[4] s = {1, 1, 2, 2}, int64[8] p = {0, 0, 3, 0, 0, 0, 1, 5}")) == []


def test_windows_in_branches():
    text = "y = If(c) <then_branch = t () => (p) { p = MaxPool<kernel_shape=[2,2]>(x) }, else_branch = e () => (q) { q = Relu(x) }>"
    assert [str(one) for one in windows(of(text, inputs="float[N,2,H,W] x, bool c"))] == ['MaxPool "p"']


@pytest.mark.parametrize(
    ("shape", "is_filled"),
    [
        ([1, 2, 7, 6], False),
        ([1, 2, 6, 7], False),
        ([1, 2, 7, 7], True),
        ([0, 2, 0, 0], False),
        ([1, 2], True),  # which it is not known to be
    ],
)
def test_windows_that_a_map_does_not_fill(shape, is_filled):
    (window,) = windows(of("y = MaxPool<kernel_shape=[7,7]>(x)"))
    assert (not window.lacking(shape)) is is_filled


def test_shapes_are_inferred_at_sizes():
    source = of("a = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) s = Shape(a) r = ConstantOfShape(s) y = Add(a, r)")
    found = infer_shapes(source, None, {"x": [1, 2, 8, 6]}, ["a", "y", "nothing"])
    assert found == {"a": [1, 2, 4, 3], "y": [1, 2, 4, 3], "nothing": []}
    assert infer_shapes(source, None, {"x": [1, 3, 8, 6]}, ["a"]) == {}, "which the model does not take"

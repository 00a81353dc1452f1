"""Convolutions that stay, and those of quantized images, judged by convolutions of integers."""

import numpy as np
import pytest

from tests.support import check, check_computes, check_refused, check_unchanged, evaluate, model

IMAGE = {"inputs": "float[1,2,4,4] x, float[2,2,3,3] w", "outputs": "float[1,2,A,B] y"}


@pytest.mark.parametrize(
    "node",
    [
        'y = Conv<auto_pad = "SAME_UPPER", strides=[2,2]>(x, w)',
        "y = Conv<dilations=[1,1], pads=[1,0,1,0]>(x, w)",
        "y = ConvTranspose<output_shape=[6,6]>(x, w)",
        'y = ConvTranspose<auto_pad = "SAME_UPPER", strides=[2,2]>(x, w)',
    ],
)
def test_convolutions_stay(node):
    for older, newer in ((1, 28), (10, 11), (28, 7)):
        check_unchanged(node, older, newer, **IMAGE)


def test_transposed_convolutions_pad_in_one_way_from_11_on():
    node = 'y = ConvTranspose<auto_pad="VALID", pads=[0,0,0,0]>(x, w)'
    check(
        node, 10, "y = ConvTranspose<auto_pad=VALID>(x, w)", 11, run=False, **IMAGE
    )  # onnxruntime takes the one alone
    check_unchanged(node.replace("VALID", "NOTSET"), 10, 11, **IMAGE)
    for both in (node.replace("VALID", "SAME_UPPER"), node.replace("[0,", "[1,")):
        check_refused(both, 10, 11, "pads and auto_pad", **IMAGE)


@pytest.mark.parametrize(("auto", "first"), [("NOTSET", 10.0), ("SAME_UPPER", 1.0), ("SAME_LOWER", 10.0)])
@pytest.mark.parametrize("opset", [7, 11])
def test_odd_padding_of_a_transposed_convolution_falls_on_the_same_side_in_both_versions(auto, first, opset):
    text = f'y = ConvTranspose<auto_pad = "{auto}", output_shape=[6], strides=[2]>(x, w)'
    of = model(text, opset, inputs="float[1,1,3] x, float[1,1,3] w", outputs="float[1,1,6] y")
    feeds = {"x": np.float32([[[1, 2, 3]]]), "w": np.float32([[[1, 10, 100]]])}
    assert evaluate(of, feeds)[0][0, 0, 0] == first


RNG = np.random.default_rng(0)


def eight_bits(kind, *shape):
    ends = np.iinfo(kind)
    return RNG.integers(ends.min, ends.max, shape, dtype=kind, endpoint=True)


def convolved(x, w):
    """Both of int64, without padding: [N, C, H, W] and [M, C, h, w]."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,mcij->nmhw", windows, w, optimize=True)


@pytest.mark.parametrize(("channels", "convolutions"), [(3, 1), (100, 2), (600, 4)])
@pytest.mark.parametrize("extreme", [False, True])
def test_sums_of_any_size(channels, convolutions, extreme):
    x, w = eight_bits("uint8", 1, channels, 4, 4), eight_bits("int8", 2, channels, 3, 3)
    if extreme:
        x[:], w[:] = 255, -128
    zero, zeros = np.array(0 if extreme else 77, np.uint8), np.array([127, 3], np.int8)
    padded = np.pad(x.astype(int) - zero, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = convolved(padded, w.astype(int) - zeros.astype(int).reshape(2, 1, 1, 1)).astype(np.int32)
    made = check_computes(
        "y = ConvInteger<pads=[1,1,1,1]>(x, w, c, d)", 10, 9, expected, feeds={"x": x, "w": w, "c": zero, "d": zeros},
        inputs=f"uint8[1,{channels},4,4] x, int8[2,{channels},3,3] w, uint8 c, int8[2] d", outputs="int32[1,2,4,4] y",
    )  # fmt: skip
    assert sum(node.op_type == "Conv" for node in made.graph.node) == convolutions


def test_attributes_survive():
    x, w = eight_bits("uint8", 1, 2, 6, 6), eight_bits("uint8", 2, 1, 2, 2)
    made = check_computes(
        "y = ConvInteger<group=2, strides=[2,2]>(x, w)", 10, 9,
        np.concatenate([convolved(x[:, k : k + 1].astype(int), w[k : k + 1].astype(int)) for k in range(2)], axis=1)[..., ::2, ::2].astype(np.int32),
        feeds={"x": x, "w": w}, inputs="uint8[1,2,6,6] x, uint8[2,1,2,2] w", outputs="int32[1,2,3,3] y",
    )  # fmt: skip
    assert [node.op_type for node in made.graph.node] == ["Cast", "Cast", "Conv", "Cast"]


def test_more_products_than_can_be_exact_are_refused():
    io = {"outputs": "int32[1,2,1,1] y"}
    check_refused(
        "y = ConvInteger(x, w)",
        10,
        9,
        "each sum of the convolution has 70000 products, too many to be exact in float; supported: at most 65536",
        inputs="uint8[1,70000,1,1] x, uint8[2,70000,1,1] w",
        **io,
    )
    check_refused(
        "y = ConvInteger(x, w)",
        10,
        9,
        "the kernel size is unknown",
        inputs="uint8[1,C,1,1] x, uint8[2,C,1,1] w",
        **io,
    )


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_quantized_images(per_channel, biased):
    shape, dims = ((2,), "[2]") if per_channel else ((), "")
    x, w = eight_bits("uint8", 1, 3, 5, 5), eight_bits("int8", 2, 3, 3, 3)
    scales, zeros = (
        np.asarray(RNG.uniform(0.01, 0.05, shape).astype(np.float32)),
        np.asarray(eight_bits("int8", *shape)),
    )
    spread = (-1, 1, 1, 1) if per_channel else ()
    total = convolved(x.astype(int) - 100, w.astype(int) - zeros.astype(int).reshape(spread))
    bias = np.array([40000, -123456], np.int32)
    total = total + bias.reshape(1, 2, 1, 1) if biased else total
    ratio = total * 0.02 * scales.astype(float).reshape(spread[:-1] if per_channel else ()) / 3.0
    feeds = {"x": x, "xs": np.array(0.02, np.float32), "xz": np.array(100, np.uint8), "w": w, "ws": scales, "wz": zeros,
             "ys": np.array(3, np.float32), "yz": np.array(9, np.uint8), "b": bias}  # fmt: skip
    check_computes(
        f"y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz{', b' if biased else ''})", 10, 9, np.clip(np.round(ratio) + 9, 0, 255).astype(np.uint8),
        feeds=feeds if biased else {k: v for k, v in feeds.items() if k != "b"}, grade="close", atol=1,
        inputs=f"uint8[1,3,5,5] x, float xs, uint8 xz, int8[2,3,3,3] w, float{dims} ws, int8{dims} wz, float ys, uint8 yz" + (", int32[2] b" if biased else ""),
        outputs="uint8[1,2,3,3] y",
    )  # fmt: skip


@pytest.mark.parametrize("wide", ["xs", "ws", "wz"])
def test_scales_that_are_no_vectors_are_refused(wide):
    """onnx.checker takes them; which axis were that of the channels?"""
    names = {"xs": "float", "xz": "uint8", "ws": "float", "wz": "uint8", "ys": "float", "yz": "uint8"}
    given = ", ".join(f"{kind}{'[1,1]' if name == wide else ''} {name}" for name, kind in names.items())
    io = {"inputs": f"uint8[1,1,3,3] x, uint8[1,1,2,2] w, {given}", "outputs": "uint8[A,B,C,D] y"}
    check_refused("y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz)", 10, 9, f'"{wide}" has rank 2', **io)
    if wide == "wz":
        given = "uint8[1,1,3,3] x, uint8[1,1,2,2] w, uint8 xz, uint8[1,1] wz"
        check_refused(
            "y = ConvInteger(x, w, xz, wz)", 10, 9, '"wz" has rank 2', inputs=given, outputs="int32[A,B,C,D] y"
        )

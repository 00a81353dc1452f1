"""DeformConv from gathers: what onnxruntime computes for images, and sums written out for any rank."""

from itertools import product

import numpy as np
import pytest

from tests.support import check_computes, check_down, check_refused

CLOSE = {"grade": "close", "rtol": 1e-4, "atol": 1e-5}


def deformed(x, w, offset, *, bias=None, mask=None, group=1, parts=1, strides=None, dilations=None, pads=None):
    """The text, element by element: linear interpolation, zeros around the data."""
    rank, kernel, result = x.ndim - 2, w.shape[2:], offset.shape[2:]
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    offset = offset.reshape(len(x), parts, *kernel, rank, *result)
    mask = np.ones((len(x), parts, *kernel, *result)) if mask is None else mask.reshape(len(x), parts, *kernel, *result)
    y = np.zeros((len(x), len(w), *result))
    for n, o, p, k in product(range(len(x)), range(len(w)), np.ndindex(*result), np.ndindex(*kernel)):
        for c in range(w.shape[1]):
            channel = o // (len(w) // group) * w.shape[1] + c
            part = channel // (x.shape[1] // parts)
            at = [
                p[d] * strides[d] - pads[d] + k[d] * dilations[d] + float(offset[(n, part, *k, d, *p)])
                for d in range(rank)
            ]
            value = 0.0
            for corner in product((0, 1), repeat=rank):
                near = [int(np.floor(a)) + c for a, c in zip(at, corner, strict=True)]
                if all(0 <= i < size for i, size in zip(near, x.shape[2:], strict=True)):
                    weight = np.prod([1 - abs(a - i) for a, i in zip(at, near, strict=True)])
                    value += weight * float(x[(n, channel, *near)])
            y[(n, o, *p)] += value * float(w[(o, c, *k)]) * mask[(n, part, *k, *p)]
    return y if bias is None else y + bias.reshape(-1, *[1] * rank)


def case(seed, shape, w, result, parts, bias, mask, dtype=np.float32):
    random = np.random.default_rng(seed)
    kernel, rank = int(np.prod(w[2:])), len(shape) - 2
    feeds = {
        "x": random.normal(size=shape),
        "w": random.normal(size=w),
        "o": random.normal(size=(shape[0], parts * kernel * rank, *result)) * 1.5,
    }
    feeds["o"].flat[:4] = [0.0, -1.0, 1e4, -1e4]
    if bias:
        feeds["b"] = random.normal(size=w[0])
    if mask:
        feeds["m"] = random.uniform(size=(shape[0], parts * kernel, *result))
    return {name: value.astype(dtype) for name, value in feeds.items()}


def declared(feeds, kind, symbolic):
    """Inputs of known sizes, or of none."""
    dims = {name: [f"{name}{k}" if symbolic else n for k, n in enumerate(v.shape)] for name, v in feeds.items()}
    return ", ".join(f"{kind}[{','.join(map(str, d))}] {name}" for name, d in dims.items())


def operands(feeds):
    names = [name if name in feeds else "" for name in "xwobm"]
    while not names[-1]:
        names.pop()
    return ", ".join(names)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("shape", "w", "result", "bias", "mask", "how"),
    [
        ((1, 1, 4, 4), (1, 1, 2, 2), (3, 3), False, False, {}),
        ((2, 4, 5, 6), (6, 2, 3, 2), (3, 3), True, True, {"group": 2, "parts": 2, "pads": [1, 0, 0, 1], "strides": [1, 2], "dilations": [2, 3]}),
        pytest.param((2, 4, 5, 5), (2, 4, 3, 3), (5, 5), True, False, {"parts": 4, "pads": [1, 1, 1, 1]}, marks=pytest.mark.long),
        ((1, 6, 3, 1), (3, 2, 1, 1), (3, 1), False, True, {"group": 3, "parts": 2}),
    ],
)  # fmt: skip
def test_deform_conv_of_images(shape, w, result, bias, mask, how, symbolic):
    feeds = case(1, shape, w, result, how.get("parts", 1), bias, mask)
    attributes = ", ".join(f"{name.replace('parts', 'offset_group')}={value}" for name, value in how.items())
    io = {"inputs": declared(feeds, "float", symbolic), "outputs": "float[A,B,C,D] y", "feeds": feeds}
    text = f"y = DeformConv<{attributes}>({operands(feeds)})".replace("<>", "")
    expected = deformed(**{{"o": "offset", "b": "bias", "m": "mask"}.get(k, k): v for k, v in feeds.items()}, **how)
    for target in (18, 10, 7):
        check_computes(text, 19, target, expected.astype(np.float32), **io, **CLOSE)


@pytest.mark.parametrize(
    ("shape", "w", "result"),
    [((2, 2, 6), (3, 2, 2), (5,)), ((1, 2, 3, 4, 3), (2, 2, 2, 1, 2), (2, 4, 2)), ((1, 1, 4, 4), (1, 1, 2, 2), (3, 3))],
)
@pytest.mark.parametrize("kind", ["double", "float16"])
def test_deform_conv_of_any_rank_and_type(shape, w, result, kind):
    dtype = {"double": np.float64, "float16": np.float16}[kind]
    feeds = case(2, shape, w, result, 1, True, True, dtype)
    expected = deformed(feeds["x"], feeds["w"], feeds["o"], bias=feeds["b"], mask=feeds["m"])
    io = {"inputs": declared(feeds, kind, False), "outputs": f"{kind}[{','.join('ABCDE'[: len(shape)])}] y"}
    close = {"rtol": 1e-9, "atol": 1e-9} if kind == "double" else {"rtol": 5e-3, "atol": 5e-3}
    check_computes(
        "y = DeformConv(x, w, o, b, m)", 19, 18, expected.astype(dtype), feeds=feeds, grade="close", **close, **io
    )


def test_it_computes_what_engines_do():
    feeds = case(3, (1, 2, 5, 5), (2, 2, 2, 2), (4, 4), 1, False, False)
    io = {"inputs": declared(feeds, "float", False), "outputs": "float[1,2,4,4] y"}
    made = check_down("y = DeformConv(x, w, o)", 19, 18, 13, feeds=feeds, **CLOSE, **io)
    assert not any(node.op_type == "Cast" and node.input[0] in feeds for node in made.graph.node)


def test_halves_without_bias_and_mask_are_cast():
    feeds = case(3, (1, 2, 5, 5), (2, 2, 2, 2), (4, 4), 1, False, False, np.float16)
    expected = deformed(feeds["x"], feeds["w"], feeds["o"]).astype(np.float16)
    io = {"inputs": declared(feeds, "float16", False), "outputs": "float16[1,2,4,4] y"}
    close = {"grade": "close", "rtol": 5e-3, "atol": 5e-3}
    made = check_computes("y = DeformConv(x, w, o)", 19, 18, expected, feeds=feeds, **close, **io)
    cast = [node.input[0] for node in made.graph.node if node.op_type == "Cast"]
    assert all(cast)
    assert set(feeds) <= set(cast)


def test_infinities_stay_where_they_are():
    """Engines multiply what lies beyond the data by 0 as well, and get NaN for it."""
    feeds = case(3, (1, 2, 5, 5), (2, 2, 2, 2), (4, 4), 1, False, False)
    feeds["x"][0, 0, 0, 0], feeds["x"][0, 1, 4, 4] = np.inf, np.nan
    feeds["o"] = np.round(feeds["o"]) + np.float32(0.25)
    expected = deformed(feeds["x"], feeds["w"], feeds["o"]).astype(np.float32)
    assert 0 < np.isfinite(expected).sum() < expected.size
    io = {"inputs": declared(feeds, "float", False), "outputs": "float[1,2,4,4] y"}
    check_computes("y = DeformConv(x, w, o)", 19, 18, expected, feeds=feeds, **CLOSE, **io)


def test_other_axes_than_the_data_has_are_refused():
    io = {"inputs": "float[1,1,4,4] x, float[1,1,2] w, float[1,4,3,3] o", "outputs": "float[A,B,C,D] y"}
    check_refused("y = DeformConv(x, w, o)", 19, 18, "spatial axes", **io)


@pytest.mark.parametrize(("x", "w"), [("N,2,H,W", "2,2,2,2"), ("N,C,H,W", "O,C,2,2")])
@pytest.mark.parametrize("shape", [(0, 2, 3, 3), (1, 2, 0, 3)])
def test_no_image_and_no_sample(x, w, shape):
    batch, channels, high, wide = shape
    feeds = {"x": (batch, channels, 4, 4), "w": (2, channels, 2, 2), "o": (batch, 8, high, wide)}
    check_computes(
        "y = DeformConv(x, w, o)", 19, 13, np.zeros((batch, 2, high, wide), np.float32), grade="close",
        feeds={name: np.zeros(size, np.float32) for name, size in feeds.items()},
        inputs=f"float[{x}] x, float[{w}] w, float[N,8,P,Q] o", outputs="float[A,B,C,D] y",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["group", "offset_group"])
def test_no_groups_are_refused(name):
    io = {"inputs": "float[1,2,6,6] x, float[2,2,3,3] w, float[1,18,4,4] o", "outputs": "float[A,B,C,D] y"}
    check_refused(f"y = DeformConv<{name}=0>(x, w, o)", 19, 18, f"{name}=0", **io)

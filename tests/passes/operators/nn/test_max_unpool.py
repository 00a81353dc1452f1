"""MaxUnpool by sorting: what it undoes, repeated and far indices, and shapes of their own."""

import numpy as np
import pytest

from tests.support import check_down, check_refused

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize(
    ("shape", "made", "how"),
    [
        ((1, 1, 2, 2), (1, 1, 4, 4), "kernel_shape=[2,2], strides=[2,2]"),
        ((2, 3, 3, 2), (2, 3, 5, 5), "kernel_shape=[3,3], strides=[2,3], pads=[1,0,1,1]"),
        ((2, 1, 4), (2, 1, 6), "kernel_shape=[3]"),
        ((1, 2, 2, 1, 2), (1, 2, 4, 2, 3), "kernel_shape=[2,2,2], strides=[2,1,1]"),
    ],
)
@pytest.mark.parametrize("target", [8, 7])
def test_elements_go_where_their_indices_point(shape, made, how, kind, target):
    """Into any image of the batch, too; of several elements for one place the last one stays."""
    x = RANDOM.normal(size=shape).astype({"float": np.float32, "double": np.float64}[kind])
    x.flat[:3] = np.inf, np.nan, -0.0
    outputs = f"{kind}[{','.join(map(str, made))}] y"
    io = {"inputs": f"{kind}[{','.join(map(str, shape))}] x, int64[{','.join(map(str, shape))}] i", "outputs": outputs}
    for low, high in ((0, np.prod(made)), (1, 3), (np.prod(made) - 1, np.prod(made))):
        feeds = {"x": x, "i": RANDOM.integers(low, high, shape)}
        check_down(f"y = MaxUnpool<{how}>(x, i)", 9, target, feeds=feeds, **io)


def test_it_undoes_a_pooling():
    body = """y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)
        z = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(y, i)"""
    x = RANDOM.normal(size=(2, 3, 6, 4)).astype(np.float32)
    check_down(body, 11, 8, 7, feeds={"x": x}, inputs="float[2,3,6,4] x", outputs="float[2,3,6,4] z")


def test_a_shape_of_its_own():
    io = {"inputs": "float[1,1,2,2] x, int64[1,1,2,2] i", "outputs": "float[1,1,A,B] y"}
    feeds = {"i": np.array([[[[5, 7], [13, 15]]]])}
    text = "y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, i, s)"
    check_down(text, 9, 8, feeds=feeds, constants="int64[4] s = {1,1,4,4}", **io)
    check_refused(text, 9, 8, "supported: output_shape=[1, 1, 4, 4]", constants="int64[4] s = {1,1,5,5}", **io)
    io["inputs"] += ", int64[4] s"
    check_refused(text, 9, 8, "output_shape differs from the shape", **io)


def test_unknown_sizes_are_refused():
    io = {"inputs": "float[N,1,2,2] x, int64[N,1,2,2] i", "outputs": "float[N,1,A,B] y"}
    check_refused("y = MaxUnpool<kernel_shape=[2,2]>(x, i)", 9, 8, "the size of the data is unknown", **io)


@pytest.mark.parametrize("target", [8, 7])
def test_no_channel_makes_no_element(target):
    io = {"inputs": "float[1,0,2,2] x, int64[1,0,2,2] i", "outputs": "float[1,0,4,4] y"}
    feeds = {"x": np.zeros((1, 0, 2, 2), np.float32), "i": np.zeros((1, 0, 2, 2), np.int64)}
    check_down("y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, i)", 9, target, feeds=feeds, **io)

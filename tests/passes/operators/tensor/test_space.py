"""DepthToSpace and SpaceToDepth: mode CRD in terms of DCR."""

import numpy as np
import onnx
import pytest

import opshift
from opshift.verification.engines import OnnxRuntime
from tests.support import check, check_refused, check_unchanged, model

X = {"x": np.arange(32, dtype=np.float32).reshape(1, 8, 2, 2)}
ORDER_AT_RUN_TIME = """t1 = Shape(x)
    t2 = Gather(t1, 1)
    t3 = Reshape(t2, [1])
    t4 = ConstantOfShape<value=[1]>(t3)
    t5 = NonZero(t4)
    t6 = Reshape(t5, [-1, 4])
    t7 = Transpose<perm=[1, 0]>(t6)
    t8 = Reshape(t7, [-1])
    t9 = Gather<axis=1>(x, t8)
    y = DepthToSpace<blocksize=2>(t9)"""


@pytest.mark.parametrize(
    ("channels", "after"),
    [
        ("8", "t1 = Gather<axis=1>(x, [0, 4, 1, 5, 2, 6, 3, 7])\ny = DepthToSpace<blocksize=2>(t1)"),
        ("C", ORDER_AT_RUN_TIME),
    ],
)
def test_channels_to_depth_first(channels, after):
    check(
        'y = DepthToSpace<blocksize=2, mode="CRD">(x)',
        11,
        after,
        10,
        inputs=f"float[N,{channels},H,W] x",
        outputs="float[N,D,A,B] y",
        feeds=X,
    )


@pytest.mark.parametrize(("op", "since"), [("DepthToSpace", 11), ("SpaceToDepth", 28)])
def test_depth_first_needs_no_mode(op, since):
    io = {"inputs": "float[N,8,2,2] x", "outputs": "float[N,D,A,B] y"}
    check(f'y = {op}<blocksize=2, mode="DCR">(x)', since, f"y = {op}<blocksize=2>(x)", since - 1, **io)
    check_unchanged(f"y = {op}<blocksize=2>(x)", 28, 1, **io)
    check_refused(f'y = {op}<blocksize=2, mode="RCD">(x)', since, since - 1, "supported: DCR or CRD", **io)


def test_channels_from_depth_first():
    after = "t1 = SpaceToDepth<blocksize=2>(x)\ny = Gather<axis=1>(t1, [0, 2, 4, 6, 1, 3, 5, 7])"
    check(
        'y = SpaceToDepth<blocksize=2, mode="CRD">(x)',
        28,
        after,
        27,
        inputs="float[N,2,H,W] x",
        outputs="float[N,8,A,B] y",
        feeds={"x": X["x"].reshape(1, 2, 4, 4)},
    )
    ordered = """t1 = Shape(x)
        t2 = Gather(t1, 1)
        t3 = Mul(t2, 4)
        t4 = SpaceToDepth<blocksize=2>(x)
        t5 = Range(0, t3, 1)
        t6 = Reshape(t5, [4, -1])
        t7 = Transpose<perm=[1, 0]>(t6)
        t8 = Reshape(t7, [-1])
        y = Gather<axis=1>(t4, t8)"""
    check(
        'y = SpaceToDepth<blocksize=2, mode="CRD">(x)',
        28,
        ordered,
        27,
        inputs="float[N,C,H,W] x",
        outputs="float[N,D,A,B] y",
        feeds={"x": X["x"].reshape(1, 2, 4, 4)},
    )


EMPTY = [(0, 8, 2, 4), (1, 0, 2, 4), (1, 8, 0, 4), (1, 8, 2, 0), (0, 8, 0, 0), (1, 8, 2, 4)]


@pytest.mark.parametrize("known", ["all", "none", "batch", "all but the batch"])
@pytest.mark.parametrize("opset", [10, 13, 21])
@pytest.mark.parametrize("shape", EMPTY)
@pytest.mark.parametrize("node", ["DepthToSpace<blocksize=2>", "SpaceToDepth<blocksize=2>"])
def test_what_is_empty_is_written_out(node, shape, opset, known):
    hidden = {"all": [], "none": range(4), "batch": [1, 2, 3], "all but the batch": [0]}[known]
    dims = ",".join(f"n{k}" if k in hidden else str(size) for k, size in enumerate(shape))
    source = model(f"y = {node}(x)", opset, inputs=f"float[{dims}] x", outputs="float[a,b,c,d] y")
    made = opshift.inline(source, [node.split("<")[0]])
    assert node.split("<")[0] not in [n.op_type for n in made.graph.node]
    onnx.checker.check_model(made, full_check=True)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    n, c, h, w = shape
    wanted = (n, c // 4, h * 2, w * 2) if node.startswith("Depth") else (n, c * 4, h // 2, w // 2)
    (y,) = OnnxRuntime(made).run({"x": x})
    assert y.shape == wanted
    if x.size:
        np.testing.assert_array_equal(y, OnnxRuntime(source).run({"x": x})[0])


def test_channels_that_blocks_do_not_divide_are_refused():
    """onnx.checker takes them, and of no batch something can be computed."""
    io = {"inputs": "float[0,1,1,1] x", "outputs": "float[A,B,C,D] y"}
    check_refused('y = DepthToSpace<blocksize=2, mode="CRD">(x)', 11, 10, "1 channels; supported: a multiple of", **io)

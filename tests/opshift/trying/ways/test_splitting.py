"""Reductions over several axes, one axis after the other: the same for every order and spelling of the axes."""

import numpy as np
import pytest

from opshift.trying.ways.splitting import SPLIT, split
from tests.support import evaluate, model

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)


def of(op, axes, keepdims, shape="2,3,4,5", opset=18):
    if opset < 18:
        return model(
            f"y = {op}<axes={axes}, keepdims={keepdims}>(x)", opset, inputs=f"float[{shape}] x", outputs="float[] y"
        )
    held = f"int64[{len(axes)}] k = {{{', '.join(map(str, axes))}}}"
    body = f"y = {op}<keepdims={keepdims}>(x, k)"
    return model(body, opset, inputs=f"float[{shape}] x", outputs="float[] y", constants=held)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[1, 3], [3, 0, 2], [-1, -3], [-1, 0]])
@pytest.mark.parametrize(("op", "opset"), [("ReduceMean", 18), ("ReduceMax", 13), ("ReduceMean", 17)])
def test_it_is_the_same(op, opset, axes, keepdims):
    source = of(op, axes, keepdims, opset=opset)
    made, changes = split(source, op)
    assert [node.op_type for node in made.graph.node] == [op] * len(
        {axis % 4 if not keepdims else axis for axis in axes}
    )
    assert {change.grade for change in changes} == {"close"}
    (expected,), (found,) = evaluate(source, {"x": X}), evaluate(made, {"x": X})
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found.shape == expected.shape


def test_what_needs_no_splitting_stays():
    for source in (of("ReduceMean", [1], 1), of("ReduceMin", [1, 2], 1)):
        made, changes = split(source, "ReduceMean")
        assert made is source
        assert not changes


def test_axes_that_are_not_known_stay():
    source = model("y = ReduceSum(x, k)", 18, inputs="float[2,3] x, int64[n] k", outputs="float[] y")
    assert split(source, "ReduceSum")[0] is source


def test_all_of_them_can_be_split():
    for op in SPLIT:
        made, _ = split(of(op, [0, 2], 0, opset=13 if op != "ReduceSum" else 18), op)
        assert len(made.graph.node) == 2

"""The ranks and axes that texts ask for are those of all published tests, and calls with others are told."""

import numpy as np
import pytest

from tests.conformance.cases import installed
from tests.node_calls import calls
from tests.support import model
from tests.test_undefined import io
from tests.undefined import axes, ranks
from tests.undefined.rows import ROWS

F = np.float32
STRUCTURE = [row for row in ROWS if row.applies in (ranks.other_rank, ranks.no_number, axes.outside, axes.twice)]


def left_open(body, opset, outputs, feeds):
    of = model(body, opset, outputs=outputs, **io(**feeds))
    return [row.what for call in calls(of, feeds) for row in STRUCTURE if row.of(call)]


@pytest.mark.long
def test_no_published_test_is_such_a_call():
    asked = set()
    for case in installed():
        for call in calls(case.model, case.inputs):
            found = [row.what for row in STRUCTURE if row.of(call)]
            assert not found, (case.name, found)
            asked |= {row.what for row in STRUCTURE if call.node.op_type in row.operators and call.shape(0)}
    assert len(asked) == len(STRUCTURE) == 4


@pytest.mark.parametrize(
    ("body", "opset", "outputs", "feeds", "other"),
    [
        ("y = Trilu(x, k)", 14, "float[A,B] y", {"x": np.ones((2, 2), F), "k": np.array(0)}, {"k": np.zeros(2, int)}),
        ("y = Clip(x, k)", 13, "float[A] y", {"x": np.ones(2, F), "k": np.ones(1, F)}, {"k": np.ones(0, F)}),
        ("y = CumSum(x, k)", 14, "float[A] y", {"x": np.ones(2, F), "k": np.array(0)}, {"k": np.array(1)}),
        ("y = Gather<axis=1>(x, i)", 13, "float[A,B] y", {"x": np.ones((1, 1), F), "i": np.array([0])}, {"x": np.ones(1, F)}),
        ("y = Softmax(x)", 12, "float[] y", {"x": np.ones((1, 1), F)}, {"x": np.ones(1, F)}),
        ("y = Squeeze(x, a)", 13, "float[] y", {"x": np.ones((1, 1), F), "a": np.array([-2])}, {"a": np.array([-3])}),
        ("y = Reshape(x, s)", 13, "float[] y", {"x": np.ones(1, F), "s": np.ones(1, int)}, {"s": np.ones((1, 1), int)}),
        ("y = DepthToSpace<blocksize=1>(x)", 13, "float[] y", {"x": np.ones((1, 1, 1, 1), F)}, {"x": np.ones((1, 1, 1), F)}),
        ("y = Gemm(x, x, c)", 13, "float[A,B] y", {"x": np.ones((1, 1), F), "c": np.array(1, F)}, {"c": np.ones((1, 1, 1), F)}),
        ("y = ReduceSum<axes=[1]>(x)", 11, "float[] y", {"x": np.ones((1, 1), F)}, {"x": np.ones(1, F)}),
        ("y = ReduceSum(x, a)", 13, "float[] y", {"x": np.ones((1, 1), F), "a": np.array([1])}, {"a": np.array([2])}),
    ],
)  # fmt: skip
def test_such_calls_are_told_from_their_neighbours(body, opset, outputs, feeds, other):
    assert not left_open(body, opset, outputs, feeds)
    assert left_open(body, opset, outputs, feeds | other)

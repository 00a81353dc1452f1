"""AttnLSTM: an LSTM that attends to a memory with each H, and reads in the next step what it found beside X."""

from __future__ import annotations

from math import inf

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.recurrence import Attention, Matrix, W, scan_over_time
from opshift.passes.operators.shared.shapes import share_along
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
QUERY, KEY, SCORE, MEMORY, LENGTHS, LAYER = range(8, 14)  # inputs: weights of the attention, and what it attends to


@says("Replaced AttnLSTM by a Scan over an LSTM step with Bahdanau attention, Softmax(V * Tanh(keys + H * QW))")
def attending_in_each_step(node: Node) -> list[str]:
    if not all(node.input(index) for index in (QUERY, KEY, SCORE, MEMORY)):
        raise CannotConvert(
            node, "input QW, MW, V or M is missing, and the operator needs all of them", supported="all four"
        )
    index, axis = (LAYER, 2) if node.input(LAYER) else (KEY, 1)
    width, both = (
        (node.scope.shape(node.input(index)) or [None] * 3)[axis],
        (node.scope.shape(node.input(W)) or [None])[-1],
    )
    if not isinstance(width, int) or not isinstance(both, int):
        raise CannotConvert(node, "the shape of W, AW or MW is unknown", supported="static shapes")
    inputs = both - width
    mask = _beyond(node)
    return scan_over_time(node, lambda number: _attention(node, number, inputs, width, mask))


def _attention(node: Node, number: int, inputs: int, width: int, mask: str) -> Attention:
    build = node.build
    weights = build.Transpose(build.Gather(node.input(W), number, axis=0), perm=[1, 0])
    entry, again = build.emit("Split", [weights, [inputs, width]], {"axis": 0}, outputs=2)
    query, key, score = (build.Gather(node.input(index), number, axis=0) for index in (QUERY, KEY, SCORE))
    keys, score = build.MatMul(node.input(MEMORY), key), build.Unsqueeze(score, [1])
    layer = build.Gather(node.input(LAYER), number, axis=0) if node.input(LAYER) else ""

    def attend(inner: Builder, hidden: str) -> str:
        bent = inner.Tanh(inner.Add(keys, inner.Unsqueeze(inner.MatMul(hidden, query), [1])))
        scores = inner.MatMul(bent, score)
        scores = inner.Where(mask, inner.constant(-inf, node.elem_type()), scores) if mask else scores
        shares = inner.Transpose(inner.Softmax(scores, axis=1), perm=[0, 2, 1])
        context = inner.Squeeze(inner.MatMul(shares, node.input(MEMORY)), [1])
        return str(inner.MatMul(inner.Concat(hidden, context, axis=1), layer) if layer else context)

    return Attention(Matrix(entry), Matrix(again), width, attend)


def _beyond(node: Node) -> str:
    """Of shape (batch, steps, 1): whether a step lies behind the end of the memory."""
    if not node.input(LENGTHS):
        return ""
    build, steps = node.build, share_along(node, node.input(MEMORY), 1, 1)
    lengths = build.Unsqueeze(recast(build, node.input(LENGTHS), T.INT32, T.INT64), [1])
    inside = build.Less(build.Unsqueeze(flat_indices.count(build, steps), [0]), lengths)
    return str(build.Unsqueeze(build.Not(inside), [2]))


defined("AttnLSTM", attending_in_each_step, opset=13, domain=MICROSOFT)

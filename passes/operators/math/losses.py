"""Losses, which opset 12 brought: the log-probability of each target is gathered, weighted and reduced."""

from __future__ import annotations

from dataclasses import replace

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.carriers import ROUNDED
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, same
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced NegativeLogLikelihoodLoss by the negated log probability of each target, weighted and reduced")
def gathered_losses(node: Node) -> str:
    return _loss(node, _wide(node, 0))


@says("Replaced SoftmaxCrossEntropyLoss by LogSoftmax, Gather at each label, Neg, weights and a reduction")
def losses_of_log_softmax(node: Node) -> list[str]:
    node.close("LogSoftmax rounds at other steps")
    logarithms = _log_softmax(node, _wide(node, 0))
    return [_loss(node, logarithms), _narrow(node, logarithms)][: len(node.outputs)]


def _log_softmax(node: Node, scores: str) -> str:
    """LogSoftmax normalized everything from its axis on, so the classes go last."""
    build, rank = node.build, node.rank()
    if rank == 2:
        return str(build.LogSoftmax(scores, axis=1))
    last = [0, *range(2, rank), 1]
    first = [0, rank - 1, *range(1, rank - 1)]
    return str(build.Transpose(build.LogSoftmax(build.Transpose(scores, perm=last), axis=rank - 1), perm=first))


def _loss(node: Node, logarithms: str) -> str:
    """Where a target is ignored, its loss and its weight are 0 whatever is found there."""
    build, target, elem_type = node.build, node.input(1), _carrier(node)
    reduction, ignored = node.attributes.get("reduction", "mean"), None
    if reduction not in ("none", "sum", "mean"):
        raise CannotConvert(node, f"reduction={reduction!r}", supported="none, sum and mean")
    zero = build.constant(0, elem_type)
    if "ignore_index" in node.attributes:
        index = node.elem_type(1)
        ignored = build.Equal(target, build.constant(node.attributes["ignore_index"], index))
        target = build.Where(ignored, build.constant(0, index), target)
    picked = build.GatherElements(logarithms, build.Unsqueeze(target, axes=[1]), axis=1)
    losses, weights = build.Neg(build.Squeeze(picked, axes=[1])), None
    if node.input(2):
        weights = build.Gather(_wide(node, 2), target)
        losses = build.Mul(losses, weights)
    elif ignored and reduction == "mean":
        weights = build.Where(ignored, zero, build.constant(1, elem_type))
    if ignored:
        losses = build.Where(ignored, zero, losses)
        weights = build.Where(ignored, zero, weights) if node.input(2) else weights
    if reduction == "none":
        return _narrow(node, losses)
    node.close("sums in another order")
    if reduction == "mean" and not weights:
        return _narrow(node, build.ReduceMean(losses, keepdims=0))
    total = build.ReduceSum(losses, keepdims=0)
    return _narrow(node, build.Div(total, build.ReduceSum(weights, keepdims=0)) if reduction == "mean" else total)


def _carrier(node: Node) -> int:
    return T.FLOAT if node.elem_type() == T.FLOAT16 else node.elem_type()


def _wide(node: Node, index: int) -> str:
    """An input in the type to compute in: float16 is computed in float."""
    name = node.input(index)
    return name if node.elem_type() != T.FLOAT16 else str(node.build.Cast(name, to=T.FLOAT))


def _narrow(node: Node, value: str) -> str:
    return value if node.elem_type() != T.FLOAT16 else str(node.build.Cast(value, to=T.FLOAT16))


@says("Checked that the loss has one weight for each class")
def one_weight_for_each_class(node: Node) -> None:
    scores, weights = (node.scope.shape(name) if name else None for name in (node.input(0), node.input(2)))
    counts = [dims[axis] for dims, axis in ((scores, 1), (weights, 0)) if dims is not None and len(dims) > axis]
    if len(counts) == 2 and all(isinstance(count, int) for count in counts) and counts[0] != counts[1]:
        raise CannotConvert(
            node, f"there are {counts[1]} weights for {counts[0]} classes", supported="one weight for each class"
        )


changed("NegativeLogLikelihoodLoss", 12, Pair(down=gathered_losses))
changed("SoftmaxCrossEntropyLoss", 12, Pair(down=losses_of_log_softmax))
same(["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"], 13, "only the text and bfloat16 changed")
changed("NegativeLogLikelihoodLoss", 22, replace(ROUNDED, up=one_weight_for_each_class))

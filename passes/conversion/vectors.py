"""Inputs that must be vectors or scalars, though onnx.checker accepts other shapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opshift.passes.errors import CannotConvert
from opshift.passes.rewrite.node import Node

_SECOND = (
    "AffineGrid", "Expand", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Reshape", "Split", "Squeeze", "Tile", "TopK",
    "Unsqueeze", "Upsample",
)  # fmt: skip
VECTORS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_SECOND, (1,)),
    **dict.fromkeys(("CenterCropPad", "Col2Im"), (1, 2)),
    **dict.fromkeys(("MaxUnpool", "STFT"), (2,)),
    "ConstantOfShape": (0,),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "SplitToSequence": (1,),
}

NUMBERS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("OneHot", "SequenceAt", "SequenceErase", "Trilu"), (1,)),
    "Range": (0, 1, 2),
    **dict.fromkeys(("SequenceInsert", "Tile"), (2,)),
}


@contextmanager
def assume_vectors(node: Node) -> Iterator[None]:
    """While a step runs, refuse the node if an input that must be a vector or a scalar is not."""
    op = node.op_type
    try:
        yield
    except (IndexError, TypeError, ValueError):
        for index in VECTORS.get(op, ()):
            rank = node.scope.rank(node.input(index)) if node.input(index) else None
            if rank not in (None, 1):
                why = f"input {index} has rank {rank}; supported: a vector"
                raise CannotConvert(node, why) from None
            if rank == 1 and node.scope.shape(node.input(index)) == [0]:
                raise CannotConvert(node, f"input {index} is empty") from None
        for index in NUMBERS.get(op, ()):
            value = node.scope.array(node.input(index)) if node.input(index) else None
            if value is not None and value.size != 1:
                why = f"input {index} has {value.size} elements; supported: one"
                raise CannotConvert(node, why) from None
        raise

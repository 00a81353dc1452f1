"""Inputs that are vectors by the text of an operator, and that runtimes take in other ranks, too."""

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
}


@contextmanager
def taken_for_granted(node: Node) -> Iterator[None]:
    """Steps trust that vectors are some: one that fails for want of it refuses the node."""
    op = node.op_type
    try:
        yield
    except (IndexError, TypeError, ValueError):
        for index in VECTORS.get(op, ()):
            rank = node.scope.rank(node.input(index)) if node.input(index) else None
            if rank not in (None, 1):
                why = f"input {index} of rank {rank}, which the text has as a vector; one could be expressed"
                raise CannotConvert(node, why) from None
        raise

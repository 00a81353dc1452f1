"""GridSample: its modes were renamed when it learnt to sample volumes, and bfloat16 came."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, changed
from opshift.passes.steps._recipes import carried
from opshift.passes.view import Node

T = TensorProto

NEWER = {"bilinear": "linear", "bicubic": "cubic"}
OLDER = {newer: older for older, newer in NEWER.items()}


def modes_of_any_rank(node: Node) -> None:
    """The modes of images are named like those of any rank."""
    mode = node.attributes.get("mode")
    if mode in NEWER:
        node.attributes["mode"] = NEWER[mode]


def modes_of_images(node: Node) -> None:
    """Only images could be sampled, and the modes are named for them."""
    shape, mode = node.scope.shape(node.input(0)), node.attributes.get("mode")
    if shape is not None and len(shape) != 4:
        raise CannotConvert(node, f"the data has rank {len(shape)}; 4 could be expressed")
    if mode in OLDER:
        node.attributes["mode"] = OLDER[mode]
    elif mode not in (None, "nearest", *NEWER):
        raise CannotConvert(node, f"mode={mode}; {', '.join((*OLDER, 'nearest'))} could be expressed")


changed("GridSample", 20, Pair(up=modes_of_any_rank, down=modes_of_images))
changed(
    "GridSample",
    22,
    Pair(down=carried({T.BFLOAT16: T.FLOAT}, why="bfloat16 is interpolated in float32", variable="T1")),
)

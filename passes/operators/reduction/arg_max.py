"""ArgMax and ArgMin: negative axes came (11), and a choice among equal elements (12)."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import axis_inside, mirror, nonnegative_axis
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined, same
from opshift.passes.rewrite.says import says

T = TensorProto
INT64_MIN = -(2**63)


@says("Replaced select_last_index=1 by reversing the axis")
def last_of_equals(node: Node) -> Replacement:
    if not node.attributes.pop("select_last_index", 0):
        return None
    build, x, axis = node.build, node.input(0), node.attributes.get("axis", 0)
    shape = node.scope.shape(x)
    dim = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    if isinstance(dim, int):
        backwards = build.Gather(x, list(reversed(range(dim))), axis=axis)
        last = build.constant(dim - 1, T.INT64)
    else:
        backwards = build.Slice(x, [-1], [INT64_MIN], [axis], [-1])
        last = build.Sub(build.Gather(build.Shape(x), axis), 1)
    return str(build.Sub(last, build.again(node.proto, [backwards])))


_DEFAULTS = {"axis": 0, "keepdims": 1, "select_last_index": 0}


@says("Replaced ArgMin by ArgMax of -x, for integers of -1 - x")
def place_of_mirrored_maximum(node: Node) -> str:
    build, given = node.build, node.attributes
    options = {name: given.get(name, default) for name, default in _DEFAULTS.items()}
    return str(build.emit("ArgMax", [mirror(build, node.input(0), node.elem_type())], options))


changed(["ArgMax", "ArgMin"], 11, Pair(up=axis_inside(default=0), down=nonnegative_axis(default=0)))
changed(["ArgMax", "ArgMin"], 12, Pair(down=last_of_equals))
same(["ArgMax", "ArgMin"], 13, "bfloat16 came")
defined("ArgMin", place_of_mirrored_maximum, opset=14)

"""Shape, of which a part may be asked."""

from __future__ import annotations

from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

INT64_MAX = 2**63 - 1


@says("Replaced start and end by a Slice of the shape")
def whole_shape(node: Node) -> Replacement:
    start, end = node.attributes.pop("start", 0), node.attributes.pop("end", INT64_MAX)
    if not start and end == INT64_MAX:
        return None
    build = node.build
    return str(build.Slice(build.Shape(node.input(0)), [start], [end], [0]))


changed("Shape", 15, Pair(down=whole_shape))

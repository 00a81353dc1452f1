"""Shape, of which a part may be asked, and Size."""

from __future__ import annotations

from math import prod

from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

INT64_MAX = 2**63 - 1


@says("Replaced start and end by a Slice of the shape")
def whole_shape(node: Node) -> Replacement:
    start, end = node.attributes.pop("start", 0), node.attributes.pop("end", INT64_MAX)
    if not start and end == INT64_MAX:
        return None
    build = node.build
    return str(build.Slice(build.Shape(node.input(0)), [start], [end], [0]))


@says("Replaced Size by the product of the shape, or by a constant")
def product_of_shape(node: Node) -> str:
    build, dims = node.build, node.scope.shape(node.input(0))
    known = [dim for dim in dims or [] if isinstance(dim, int)]
    if dims is not None and len(known) == len(dims):
        return build.constant(prod(known), TensorProto.INT64)
    return str(build.ReduceProd(build.Concat([1], build.Shape(node.input(0)), axis=0), keepdims=0))


defined("Size", product_of_shape, opset=13)
changed("Shape", 15, Pair(down=whole_shape))

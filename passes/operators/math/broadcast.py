"""Broadcasting, which came to two operands at 7 (with Gemm and PRelu) and to any number of operands at 8."""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared.broadcast import LEGACY, covers
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says


@says("Operands had to be of one shape: those of different shapes are added one after another.")
def folded_sum(node: Node) -> Replacement:
    if _of_one_shape(node):
        return None
    build, (total, *others) = node.build, node.inputs
    if len(others) > 1:
        node.close("the operands are added from the left")
    for other in others:
        total = build.Add(total, other)
    if node.op_type == "Sum":
        return str(total)
    node.close("a sum divided by the number of operands")
    return str(build.Div(total, build.constant(len(node.inputs), node.elem_type())))


@says("Operands had to be of one shape: others are multiplied by ones (x^0, which is 1 for every x) of that shape.")
def extreme_of_one_shape(node: Node) -> None:
    if _of_one_shape(node):
        return
    build, zero = node.build, node.build.constant(0.0, node.elem_type())
    shapes = [node.scope.shape(name) for name in node.inputs]
    widest = _widest(node, shapes)
    full = None if widest is None else shapes[widest]
    ones = ""
    for name in node.inputs if widest is None else [node.input(widest)]:
        own = build.Pow(name, zero)
        ones = build.Mul(ones, own) if ones else own
    node.inputs = [
        name if index == widest or _same(shapes[index], full) else build.Mul(name, ones)
        for index, name in enumerate(node.inputs)
    ]


def _of_one_shape(node: Node) -> bool:
    first, *others = (node.scope.shape(name) for name in node.inputs)
    return all(_same(first, other) for other in others)


def _same(a: list[Dim] | None, b: list[Dim] | None) -> bool:
    return a == b and a is not None and None not in a


def _widest(node: Node, shapes: list[list[Dim] | None]) -> int | None:
    """The operand that has the shape of the result; None if none is known to."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    try:
        return next((i for i, a in enumerate(known) if all(covers(node, a, b) for b in known if b is not a)), None)
    except CannotConvert:
        return None


@says("The addend was broadcast only on request, as a suffix; that is part of what numpy does.")
def addend_as_it_stands(node: Node) -> None:
    node.attributes.pop("broadcast", 0)


@says("The addend was broadcast as numpy does, and now only as a row or one element; a column is repeated.")
def addend_on_request(node: Node) -> None:
    node.rank(2)
    dims = node.scope.shape(node.input(2)) or []
    if len(dims) < 2 or dims == [1, 1]:
        node.attributes["broadcast"] = 1
        return
    rows, columns = _dim(node, 0, "transA", 0), _dim(node, 1, "transB", 1)
    tall, wide = _spans(dims[0], rows), _spans(dims[1], columns)
    if tall and wide:
        return
    if dims[0] == 1:
        node.set_input(2, node.build.Squeeze(node.input(2), axes=[0]))
        node.attributes["broadcast"] = 1
    elif tall and dims[1] == 1 and isinstance(columns, int):
        node.set_input(2, node.build.Tile(node.input(2), [1, columns]))
    else:
        shape = ", ".join(str(dim or "?") for dim in dims)
        raise CannotConvert(node, f"an addend of shape [{shape}]; a row, or static shapes, could be expressed")


def _dim(node: Node, index: int, transposed: str, axis: int) -> Dim:
    dims = node.scope.shape(node.input(index))
    return dims[1 - axis if node.attributes.get(transposed, 0) else axis] if dims else None


def _spans(dim: Dim, whole: Dim) -> bool:
    """Whether a dimension that is broadcast to `whole` is that already."""
    return (isinstance(dim, int) and dim != 1) or (dim == whole and dim is not None)


@says("A vector of slopes was one per channel, the second dimension of x, and is matched from the last one on.")
def slope_per_channel(node: Node) -> None:
    dims = node.scope.shape(node.input(1))
    if dims is None:
        node.rank(1)
    if dims == [1] or len(dims or []) != 1:
        return
    if (rank := node.rank(0)) > 2:
        node.set_input(1, node.build.Unsqueeze(node.input(1), axes=list(range(1, rank - 1))))


@says("Slopes were broadcast to x, and now are one, or one per channel; x is reshaped where they span its end.")
def slope_as_vector(node: Node) -> Replacement:
    build, rank = node.build, node.rank(0)
    node.rank(1)
    x, dims = node.scope.shape(node.input(0)) or [], node.scope.shape(node.input(1)) or []
    longer = [k + rank - len(dims) for k, dim in enumerate(dims) if dim != 1]
    if longer in ([], [1]):
        if len(dims) != 1:
            node.set_input(1, build.Reshape(node.input(1), [-1]))
        return None
    run = x[longer[0] :]
    slopes = dims[longer[0] - rank :]
    if longer[0] < 0 or run != slopes or not all(isinstance(dim, int) for dim in run):
        raise CannotConvert(node, "slopes that are neither one, nor one per channel, nor of the shape of the end of x")
    if 0 in x:
        return node.input(0)
    count = prod(dim for dim in run if isinstance(dim, int))
    flat = [build.Reshape(node.input(0), [-1, count]), build.Reshape(node.input(1), [count])]
    known = [dim if isinstance(dim, int) else -1 for dim in x]
    shape = known if known.count(-1) < 2 else build.Shape(node.input(0))
    return str(build.Reshape(build.again(node.proto, flat), shape))


changed(["Add", "Sub", "Mul", "Div", "Pow"], 7, LEGACY)
changed("Gemm", 7, Pair(up=addend_as_it_stands, down=addend_on_request))
changed("PRelu", 7, Pair(up=slope_per_channel, down=slope_as_vector))
changed(["Sum", "Mean"], 8, Pair(down=folded_sum))
changed(["Max", "Min"], 8, Pair(down=extreme_of_one_shape))

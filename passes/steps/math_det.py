"""Det before it existed."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, changed
from opshift.passes.view import Node

T = TensorProto
LARGEST = 4


def sum_of_cofactors(node: Node) -> str:
    """The determinant becomes its expansion by the first row, in float32 for float16."""
    shape, kind = node.scope.shape(node.input(0)), node.elem_type()
    size = next((dim for dim in (shape or [])[-2:] if isinstance(dim, int)), 0)
    if not 1 <= size <= LARGEST:
        found = f"a matrix of {size} rows" if size else "a matrix of unknown size"
        raise CannotConvert(node, f"{found}; 1 to {LARGEST} could be expressed")
    node.close("products and sums round in their own order")
    build, carrier = node.build, T.FLOAT if kind == T.FLOAT16 else kind
    x = node.input(0) if carrier == kind else build.Cast(node.input(0), to=carrier)
    rank = len(shape or [])
    rows = [build.Gather(x, row, axis=rank - 2) for row in range(size)]
    elements = [[build.Gather(row, column, axis=rank - 2) for column in range(size)] for row in rows]
    value = _determinant(node, elements)
    return value if carrier == kind else str(build.Cast(value, to=kind))


def _determinant(node: Node, rows: list[list[str]]) -> str:
    first, *others = rows
    if not others:
        return first[0]
    build, total = node.build, ""
    for column, factor in enumerate(first):
        minor = [[*row[:column], *row[column + 1 :]] for row in others]
        term = build.Mul(factor, _determinant(node, minor))
        total = build.emit("Sub" if column % 2 else "Add", [total, term]) if total else term
    return total


changed("Det", 11, Pair(down=sum_of_cofactors))

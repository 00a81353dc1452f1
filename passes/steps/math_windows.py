"""Windows and determinants before they existed."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, changed
from opshift.passes.view import Node

T = TensorProto

COSINES = {
    "BlackmanWindow": (0.42, 0.5, 0.08),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "HannWindow": (0.5, 0.5, 0.0),
}
TAU = 6.2831853
LARGEST = 4


def window_of_cosines(node: Node) -> str:
    """The window becomes a0 - a1 * cos(2 * pi * n / N) + a2 * cos(4 * pi * n / N), in float32."""
    node.close("computed in float32 from cosines")
    build = node.build

    def number(value: float) -> str:
        return str(build.constant(value, T.FLOAT))

    a0, a1, a2 = COSINES[node.op_type]
    size = build.Reshape(build.Cast(node.input(0), to=T.FLOAT), build.constant([], T.INT64))
    length = size if node.attributes.get("periodic", 1) else build.Sub(size, number(1.0))
    angle = build.Mul(build.Range(number(0.0), size, number(1.0)), build.Div(number(TAU), length))
    window = build.Sub(number(a0), build.Mul(number(a1), build.Cos(angle)))
    if a2:
        twice = build.Cos(build.Mul(angle, number(2.0)))
        window = build.Add(window, build.Mul(number(a2), twice))
    kind = node.attributes.get("output_datatype", T.FLOAT)
    return window if kind == T.FLOAT else str(build.Cast(window, to=kind))


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


changed(list(COSINES), 17, Pair(down=window_of_cosines))
changed("Det", 11, Pair(down=sum_of_cofactors))

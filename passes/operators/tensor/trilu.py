"""Trilu before it existed: a mask beyond the diagonal."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
_FAR = 1 << 32  # beyond all columns that memory holds


@says("Replaced Trilu by Where with a triangular mask")
def masked_triangle(node: Node) -> str:
    build, x, elem_type = node.build, node.input(0), node.elem_type()
    rows, columns = _last_two(node)
    k = node.scope.array(node.input(1)) if node.input(1) else 0
    if k is None:
        offset: Size = build.Reshape(node.input(1), [])
    else:
        offset = int(k if isinstance(k, int) else k.reshape(-1)[0])
    upper = bool(node.attributes.get("upper", 1))
    cleared = _beyond(node, rows, columns, offset, upper)
    if elem_type == T.BFLOAT16:
        x = build.Cast(x, to=T.FLOAT)
    zero = build.constant("" if elem_type == T.STRING else 0, T.FLOAT if elem_type == T.BFLOAT16 else elem_type)
    result = str(build.Where(cleared, zero, x))
    return result if elem_type != T.BFLOAT16 else str(build.Cast(result, to=elem_type))


def _last_two(node: Node) -> tuple[Size, Size]:
    shape = node.scope.shape(node.input(0))
    if shape is not None and len(shape) < 2:
        raise CannotConvert(node, f"Trilu gets data of rank {len(shape)}", supported="rank 2 or more")
    dims = shape[-2:] if shape is not None else [None, None]
    if all(isinstance(dim, int) for dim in dims):
        return dims[0], dims[1]  # type: ignore[return-value]
    sizes = node.build.Slice(node.build.Shape(node.input(0)), [-2], [2**31 - 1], [0])
    rows, columns = (dim if isinstance(dim, int) else node.build.Gather(sizes, i) for i, dim in enumerate(dims))
    return rows, columns


def _beyond(node: Node, rows: Size, columns: Size, k: Size, upper: bool) -> str:
    """Where column - row is less than k, or greater: a constant if all of them are known."""
    import numpy as np

    build = node.build
    if isinstance(rows, int) and isinstance(columns, int) and isinstance(k, int):
        place = np.arange(columns) - np.arange(rows)[:, None]
        return build.constant(place < k if upper else place > k, T.BOOL)
    column = flat_indices.count(build, columns)
    row = build.Reshape(flat_indices.count(build, rows), [-1, 1])
    compare = build.Less if upper else build.Greater
    if isinstance(k, str):  # which no row may be added to: it may be as large as integers are
        return str(compare(build.Sub(column, row), k))
    return str(compare(column, build.Add(row, max(min(k, _FAR), -_FAR)) if k else row))


changed("Trilu", 14, Pair(down=masked_triangle))

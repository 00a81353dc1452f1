"""Det, which opset 11 brought; bfloat16 came (22)."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim, tensor_type
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.carriers import ROUNDED
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
WRITTEN_OUT = 4  # rows of matrices that are expanded by cofactors


@says("Replaced Det by its expansion along the first row, for large matrices by Gaussian elimination")
def cofactors_or_elimination(node: Node) -> str:
    shape, rank, elem_type = node.scope.shape(node.input(0)) or [], node.rank(), node.elem_type()
    if rank < 2:
        raise CannotConvert(node, f"Det gets data of rank {rank}, and needs matrices", supported="rank 2 or more")
    node.close("sums and rounds in another order")
    build, carrier = node.build, T.FLOAT if elem_type == T.FLOAT16 else elem_type
    x = node.input(0) if carrier == elem_type else build.Cast(node.input(0), to=carrier)
    rows = next((dim for dim in shape[-2:] if isinstance(dim, int)), None)
    if rows is not None and 1 <= rows <= WRITTEN_OUT:
        matrix = [build.Gather(x, row, axis=rank - 2) for row in range(rows)]
        value = _expand(build, [[build.Gather(row, k, axis=rank - 2) for k in range(rows)] for row in matrix])
    else:
        value = _eliminate(node, x, carrier, rows)
    return value if carrier == elem_type else str(build.Cast(value, to=elem_type))


def _expand(build: Builder, rows: list[list[str]]) -> str:
    first, *others = rows
    if not others:
        return first[0]
    total = ""
    for column, factor in enumerate(first):
        minor = [[*row[:column], *row[column + 1 :]] for row in others]
        term = build.Mul(factor, _expand(build, minor))
        total = build.emit("Sub" if column % 2 else "Add", [total, term]) if total else term
    return total


def _eliminate(node: Node, x: str, elem_type: int, rows: Dim) -> str:
    """One column a round: the row left with the greatest element in it is subtracted from the others left.

    The determinant is the product of these elements, negated for each pair of rows that changed their order.
    """
    build, sizes = node.build, flat_indices.sizes(node, node.input(0))
    if rows == 0:  # the product of no factor
        return str(build.ConstantOfShape(flat_indices.vector(build, sizes[:-2]), value=tensors.tensor([1], elem_type)))
    size: Size = rows if isinstance(rows, int) else sizes[-1]
    batch, one = flat_indices.product(build, sizes[:-2]), build.constant(1, elem_type)
    number = build.Sub(size, flat_indices.count(build, size))
    behind = flat_indices.places(build, [batch, 1], [size, 0], size)  # the row behind the last one of each matrix

    def pivot(inner: Builder, at: str, so_far: list[str]) -> list[str]:
        matrix, left, value = so_far
        column = inner.Gather(matrix, at, axis=2)
        first = flat_indices.first_greatest(inner, inner.Abs(column), left, number, 1, elem_type)
        row = inner.Gather(
            inner.Reshape(matrix, flat_indices.vector(inner, [-1, size])), inner.Sub(behind, first), axis=0
        )
        others = inner.And(left, inner.Not(inner.Equal(number, first)))
        element = inner.Gather(row, at, axis=2)
        vanishes = inner.Cast(inner.Not(inner.Cast(element, to=T.BOOL)), to=elem_type)
        share = inner.Div(inner.Mul(column, inner.Cast(others, to=elem_type)), inner.Add(element, vanishes))
        before = inner.Cast(inner.And(left, inner.Greater(number, first)), to=T.INT64)
        before = inner.ReduceSum(before, axes=[1], keepdims=1)
        odd = inner.Cast(inner.Sub(before, inner.Mul(inner.Div(before, 2), 2)), to=elem_type)
        value = inner.Mul(inner.Mul(value, element), inner.Sub(one, inner.Add(odd, odd)))
        return [inner.Sub(matrix, inner.Mul(inner.Unsqueeze(share, axes=[2]), row)), others, value]

    ones = [flat_indices.vector(build, [batch, columns]) for columns in (size, 1)]
    ones = [build.ConstantOfShape(shape, value=tensors.tensor([1], elem_type)) for shape in ones]
    stack = x if len(sizes) == 3 else flat_indices.in_sizes(node, x, [batch, size, size], elem_type)
    start = (stack, build.Cast(ones[0], to=T.BOOL), ones[1])
    kinds = (tensor_type(elem_type, [None] * 3), tensor_type(T.BOOL, [None] * 2), tensor_type(elem_type, [None] * 2))
    value = build.loop(size, list(zip(start, kinds, strict=True)), pivot)[2]
    if len(sizes) == 3:
        return str(build.Reshape(value, [-1]))
    return flat_indices.in_sizes(node, value, sizes[:-2], elem_type)


changed("Det", 11, Pair(down=cofactors_or_elimination))
changed("Det", 22, ROUNDED)

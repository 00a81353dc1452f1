"""DynamicTimeWarping: the way of least cost through a matrix, along its diagonals and back again."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
BOTH, DOWN, ASIDE = range(3)  # where a step came from: the row and the column before, the row, the column


@says("Replaced DynamicTimeWarping by a Loop over the diagonals, and a Loop back along the cheapest path")
def way_of_least_cost(node: Node) -> str:
    build = node.build
    rows, columns = flat_indices.sizes(node, node.input(0))[-2:]
    diagonals = build.Sub(build.Add(rows, columns), 1)
    steps = _steps(build, _by_diagonals(node, rows, columns, diagonals), diagonals, rows)

    def back(inner: Builder, at: str, held: list[str]) -> list[str]:
        row, column = held
        diagonal = inner.Max(inner.Sub(inner.Add(row, column), 2), 0)
        step = inner.Gather(inner.Gather(steps, diagonal, axis=0), row, axis=0)
        step = inner.Where(inner.Equal(row, 0), ASIDE, inner.Where(inner.Equal(column, 0), DOWN, step))
        place = inner.Sub(inner.Concat(*(inner.Reshape(x, [1]) for x in held), axis=0), 1)
        row, column = (
            inner.Sub(x, inner.Cast(inner.Not(inner.Equal(step, other)), to=T.INT64))
            for x, other in ((row, ASIDE), (column, DOWN))
        )
        return [inner.Greater(inner.Add(row, column), 0), row, column, place]

    start = [(build.Add(size, 0), tensor_type(T.INT64, [])) for size in (rows, columns)]
    turns = build.Mul(build.Add(diagonals, 1), build.Min(build.Mul(rows, columns), 1))  # none through no elements
    places = build.loop(turns, start, back, ends=True)[-1]
    found = build.Slice(places, [-1], [-(2**63)], [0], [-1])
    return str(build.Cast(build.Transpose(found, perm=[1, 0]), to=T.INT32))


def _by_diagonals(node: Node, rows: Size, columns: Size, diagonals: str) -> str:
    """The cost of (row - 1, diagonal - row + 1), a line a diagonal, infinite beside the matrix."""
    build = node.build
    row = build.Range(0, build.Add(rows, 1), 1)
    column = build.Sub(build.Unsqueeze(build.Range(1, build.Add(diagonals, 1), 1), [1]), row)
    inside = build.And(build.Greater(row, 0), build.And(build.GreaterOrEqual(column, 0), build.Less(column, columns)))
    place = build.Where(inside, build.Add(build.Mul(build.Sub(row, 1), columns), column), 0)
    flat = build.Reshape(node.input(0), [-1])
    if not all(isinstance(size, int) and size for size in (rows, columns)):  # without elements, 0 is no place
        flat = build.Concat(flat, build.constant([0.0], T.FLOAT), axis=0)
    costs = build.Gather(flat, place, axis=0)
    return str(build.Where(inside, costs, build.constant(float("inf"), T.FLOAT)))


def _steps(build: Builder, costs: str, diagonals: str, rows: Size) -> str:
    """Where the least sum of each place comes from: of equal ones, from the column before."""
    beyond = build.constant([float("inf")], T.FLOAT)
    size = build.Add(rows, 1)
    none = build.Expand(beyond, build.Reshape(size, [1]))
    first = build.Concat(build.constant([0.0], T.FLOAT), build.Slice(none, [1], [2**63 - 1], [0]), axis=0)
    vector = tensor_type(T.FLOAT, [None])

    def step(inner: Builder, at: str, sums: list[str]) -> list[str]:
        both, down = (inner.Concat(beyond, inner.Slice(x, [0], [-1], [0]), axis=0) for x in sums)
        aside = sums[1]
        from_both = inner.And(inner.Less(both, down), inner.Less(both, aside))
        from_down = inner.And(inner.Less(down, both), inner.Less(down, aside))
        least = inner.Where(from_both, both, inner.Where(from_down, down, aside))
        came = inner.Where(from_both, BOTH, inner.Where(from_down, DOWN, ASIDE))
        return [aside, inner.Add(inner.Gather(costs, at, axis=0), least), came]

    return str(build.loop(diagonals, [(first, vector), (none, vector)], step)[-1])


defined("DynamicTimeWarping", way_of_least_cost, opset=18, domain=MICROSOFT)

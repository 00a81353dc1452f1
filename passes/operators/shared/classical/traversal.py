"""The nodes that walk from the roots of all trees to their leaves, for all rows of features at once.

Values are vectors with an element for each row and tree. At the top of the trees all comparisons are made at once, and
the slot that a row comes to is looked up level by level. Further down, a level takes eight nodes: the feature, the
threshold and the children of the slot, the place of the feature in the rows, its value, the comparison, that as a
number, and the slot that it leads to.

All is looked up by GatherElements in vectors, which takes onnxruntime a fifth of the time of Gather, and a tenth of
that in matrices with few columns. Below opset 11, and for backends that lack it, Gather does the same.
"""

from __future__ import annotations

from collections.abc import Callable

from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared.classical.comparisons import LOOKED_UP, LOWERED, NEGATIVE, Comparisons
from opshift.passes.operators.shared.classical.forest import Array
from opshift.passes.operators.shared.classical.sets import look_up_sets
from opshift.passes.operators.shared.classical.tables import Tables
from opshift.passes.rewrite.builder import Builder

T = TensorProto

# Seconds, measured in onnxruntime 1.32 by `python -m benchmarks.trees --constants`.
NODE = 0.3e-6  # a node, whatever it works on
LEVEL = 4.0e-9  # a level that is looked up, for a row and a tree
COMPARISON = 1.9e-9  # one of the comparisons at the top, for a row
FOUND = 0.7e-9  # the slot that it leads to, looked up
LEVEL_NODES = 8
MANY = 2000  # rows: that they take little time counts as much as that one does
MOST_AT_TOP = 31  # comparisons of a tree that are made at once,
MOST_OF_ROW = 2048  # and those of all trees: a row of features takes twelve bytes for each
UNROLLED = 32  # levels that are written one after the other; what lies deeper is a Loop


class Rows:
    """Rows of features, one behind the other, as the walk reads them."""

    def __init__(self, build: Builder, rows: str, elem_type: int, compared: Comparisons, width: int | None):
        self.features, rows, width = read_in_forms(build, rows, elem_type, compared, width)
        count = build.scope.size(rows, 0)
        if count is not None:
            self._numbers = build.constant(np.arange(count)[:, None], T.INT32)
        else:
            count = build.Cast(build.Gather(build.Shape(rows), 0, axis=0), to=T.INT32)
            zero, one = build.constant(0, T.INT32), build.constant(1, T.INT32)
            self._numbers = build.Unsqueeze(build.Range(zero, count, one), [1])
        self.values = build.Reshape(rows, [-1])
        self.begins = self.times(build, width)

    def times(self, build: Builder, factor: int) -> str:
        """The numbers of the rows, times a factor, as a column."""
        return str(build.Mul(self._numbers, build.constant(factor, T.INT32)))


def read_in_forms(
    build: Builder, rows: str, elem_type: int, compared: Comparisons, width: int | None
) -> tuple[Array, str, int]:
    """The column that each node reads, and rows in which the forms of features stand behind one another."""
    forms = np.unique(compared.forms[compared.forms != LOOKED_UP]).tolist() or [0] * (not compared.lookups)
    if width is None:
        read = [*compared.features[compared.forms != LOOKED_UP], *(held.feature for held in compared.lookups), 0]
        width = int(max(read)) + 1
        rows = build.Slice(rows, [0], [width], [1])
    parts = [_form(build, rows, elem_type, form) for form in forms]
    features = compared.features + width * np.searchsorted(forms, compared.forms)
    width *= len(parts)
    if compared.lookups:
        parts += look_up_sets(build, rows, elem_type, compared.lookups)
        width += sum(held.table.shape[1] for held in compared.lookups)
    return features, build.Concat(*parts, axis=1) if len(parts) > 1 else parts[0], width


def _form(build: Builder, rows: str, elem_type: int, form: int) -> str:
    """The features, their negatives, or one of both with -infinity in the place of NaN."""
    rows = build.Neg(rows) if form & NEGATIVE else rows
    if not form & LOWERED:
        return rows
    return str(build.Where(build.IsNaN(rows), build.constant(-np.inf, elem_type), rows))


def leaves_reached(build: Builder, rows: Rows, elem_type: int, compared: Comparisons, tables: Tables) -> str:
    """The slots of the leaves that the rows come to: those of the first row in all trees, then those of the next."""
    features, thresholds = _contents(rows, compared, tables)
    top = levels_at_top(tables)
    slots = _through_top(build, rows, elem_type, tables, top, features, thresholds)
    rest = tables.depth - top
    if rest <= 0:
        return slots
    held = (
        build.constant(features, T.INT32),
        build.constant(thresholds, elem_type),
        build.constant(tables.following, T.INT32),
    )
    begins = build.Add(rows.begins, build.constant(np.zeros((1, tables.ends[0])), T.INT32))
    begins = build.Reshape(begins, [-1])

    def descend(inner: Builder, slots: str) -> str:
        feature, threshold, following = (look_up(inner, table, slots) for table in held)
        value = look_up(inner, rows.values, inner.Add(feature, begins))
        holds = inner.Cast(inner.Less(value, threshold), to=T.INT32)
        return str(inner.Add(following, holds))

    for _ in range(min(rest, UNROLLED)):
        slots = descend(build, slots)
    return slots if rest <= UNROLLED else _descend_further(build, slots, rest - UNROLLED, descend)


def look_up(build: Builder, table: str, places: str) -> str:
    """The elements of a vector at the places in another one."""
    return str(build.GatherElements(table, places, axis=0))


def levels_at_top(tables: Tables) -> int:
    """How many levels are compared at once: as many as make the sum of the times for one row and for many least."""
    trees = tables.ends[0]
    costs = {}
    for levels in range(1, max(tables.depth, 1) + 1):
        slots = tables.ends[min(levels, len(tables.ends)) - 1]
        if levels == 1 or slots <= min(MOST_AT_TOP * trees, MOST_OF_ROW):
            rest = max(tables.depth - levels, 0)
            row = slots * COMPARISON + trees * (levels * FOUND + rest * LEVEL)
            costs[levels] = row + NODE * (levels + LEVEL_NODES * rest) + row * MANY / 100
    return min(costs, key=lambda levels: (costs[levels], levels))


def _contents(rows: Rows, compared: Comparisons, tables: Tables) -> tuple[Array, Array]:
    """The feature and the threshold in each slot; where there is no node, nothing is below the threshold."""
    dtype = compared.thresholds.dtype
    features, thresholds = np.zeros(len(tables.nodes), np.int64), np.full(len(tables.nodes), -np.inf, dtype)
    inner = tables.nodes >= 0
    features[inner] = rows.features[tables.nodes[inner]]
    thresholds[inner] = compared.thresholds[tables.nodes[inner]]
    return features, thresholds


def _through_top(
    build: Builder,
    rows: Rows,
    elem_type: int,
    tables: Tables,
    levels: int,
    features: Array,
    thresholds: Array,
) -> str:
    """The slots that so many comparisons lead to. Slots at the top are places among the comparisons of a row."""
    width = tables.ends[min(levels, len(tables.ends)) - 1]
    places = build.Add(rows.begins, build.constant(features[None, :width], T.INT32))
    values = build.Reshape(look_up(build, rows.values, build.Reshape(places, [-1])), [-1, width])
    holds = build.Less(values, build.constant(thresholds[None, :width], elem_type))
    after = build.Add(build.Cast(holds, to=T.INT32), build.constant(tables.following[None, :width], T.INT32))
    if levels == 1:
        return str(build.Reshape(after, [-1]))
    among_all = build.Add(after, rows.times(build, width))
    slots = build.Reshape(build.Slice(among_all, [0], [tables.ends[0]], [1]), [-1])
    among_all = build.Reshape(among_all, [-1]) if levels > 2 else ""
    for _ in range(levels - 2):
        slots = look_up(build, among_all, slots)
    return look_up(build, build.Reshape(after, [-1]), slots)


def _descend_further(build: Builder, slots: str, levels: int, descend: Callable[[Builder, str], str]) -> str:
    """So many levels in a loop, which ends when no row moves any more."""

    def body(inner: Builder, _: str, so_far: list[str]) -> list[str]:
        after = descend(inner, so_far[0])
        moved = inner.Cast(inner.Not(inner.Equal(after, so_far[0])), to=T.FLOAT)
        return [inner.Cast(inner.ReduceSum(moved, keepdims=0), to=T.BOOL), after]

    return build.loop(levels, [(slots, tensor_type(T.INT32, [None]))], body, ends=True)[0]

"""Choosing between two values element by element, before there was Where, and between an operator's two parts."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto

# Integers that are multiplied by 0 and 1, and the types that multiplication takes.
MULTIPLIED: dict[int, int] = {
    T.INT8: T.INT32,
    T.INT16: T.INT32,
    T.UINT8: T.INT32,
    T.UINT16: T.INT32,
    T.UINT32: T.INT64,
    T.INT32: T.INT32,
    T.INT64: T.INT64,
    T.UINT64: T.UINT64,
}


# --- Where --------------------------------------------------------------------------------------------------


@says("Where did not exist: integers are multiplied by 0 or 1, anything else is gathered from both values.")
def chosen_by_arithmetic_or_place(node: Node) -> str:
    elem_type = node.elem_type(1)
    if elem_type == T.BOOL:
        return _chosen_bools(node)
    if elem_type in MULTIPLIED:
        return _multiplied(node, elem_type, MULTIPLIED[elem_type])
    return _gathered(node)


def _chosen_bools(node: Node) -> str:
    build, (chosen, x, y) = node.build, node.inputs
    return str(build.Or(build.And(chosen, x), build.And(build.Not(chosen), y)))


def _multiplied(node: Node, elem_type: int, carrier: int) -> str:
    """c * x + (1 - c) * y, which no integer overflows"""
    build, (chosen, x, y) = node.build, node.inputs
    if carrier != elem_type:
        x, y = build.Cast(x, to=carrier), build.Cast(y, to=carrier)
    first, second = (build.Cast(c, to=carrier) for c in (chosen, build.Not(chosen)))
    result = str(build.Add(build.Mul(first, x), build.Mul(second, y)))
    return result if carrier == elem_type else str(build.Cast(result, to=elem_type))


def _gathered(node: Node) -> str:
    """gather(concat(y, x), place in y + c * (place in x - place in y)), all of them flattened"""
    import numpy as np

    build, (chosen, x, y) = node.build, node.inputs
    if (out := _common_sizes(node)) is None:
        return _gathered_alike(node)
    y_dims = flat_indices.sizes(node, y)
    x_steps, y_steps = (_steps(node, name, out) for name in (x, y))
    offset = flat_indices.product(build, y_dims)
    apart = [flat_indices.minus(build, a, b) for a, b in zip(x_steps, y_steps, strict=True)]
    jump = flat_indices.places(build, out, apart, offset)
    base = flat_indices.places(build, out, y_steps)
    if (place := _known_places(node, jump, base, len(out))) is None:
        if len(node.scope.shape(chosen) or []) < len(out):  # the steps leave out axes of size 1 in front
            base = flat_indices.plus(build, build.constant(np.zeros([1] * len(out)), T.INT64), base)
        place = flat_indices.plus(build, build.Mul(build.Cast(chosen, to=T.INT64), jump), base)
    return str(build.Gather(_one_after_the_other(build, y, x), place, axis=0))


def _known_places(node: Node, jump: Size, base: Size, rank: int) -> str | None:
    """Where each element is gathered from, if the condition is constant and so is the rest."""
    import numpy as np

    parts = [jump, base, node.input(0)]
    held = [part if isinstance(part, int) else node.scope.array(part) for part in parts]
    if any(part is None for part in held):
        return None
    return node.build.constant(np.zeros([1] * rank) + held[1] + held[0] * held[2], T.INT64)  # type: ignore[operator]


def _one_after_the_other(build: Builder, *values: str) -> str:
    return str(build.Concat(*(build.Reshape(value, [-1]) for value in values), axis=0))


def _common_sizes(node: Node) -> list[Size] | None:
    """The sizes of the result, where it is known on each axis which values are repeated along it."""
    shapes = [node.scope.shape(name) for name in node.inputs]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank, found = max(map(len, known)), list[Size]()
    for axis in range(-rank, 0):
        along = [(k, shape[axis]) for k, shape in enumerate(known) if len(shape) >= -axis]
        longer: set[Dim] = {dim for _, dim in along if dim != 1}
        if len(longer) > 1 or None in longer:
            return None
        dim = next(iter(longer), 1)
        if isinstance(dim, int):
            found.append(dim)
            continue
        k = next(k for k, other in along if other == dim)
        found.append(node.build.Gather(node.build.Shape(node.inputs[k]), axis + len(known[k])))
    return found


def _steps(node: Node, name: str, out: list[Size]) -> list[Size]:
    """The strides of a value along the axes of the result; 0 where it is repeated."""
    shape, dims = node.scope.shape(name) or [], flat_indices.sizes(node, name)
    own = [0 if dim == 1 else step for dim, step in zip(shape, flat_indices.strides(node.build, dims), strict=True)]
    return [0] * (len(out) - len(own)) + own


def _gathered_alike(node: Node) -> str:
    """The same with all values expanded to one shape first."""
    build, (chosen, x, y) = node.build, node.inputs
    ranks = [None if (shape := node.scope.shape(name)) is None else len(shape) for name in node.inputs]
    rank = None if None in ranks else max(r for r in ranks if r is not None)
    for name, other in ((x, ranks[1]), (y, ranks[2])):
        chosen = build.Expand(chosen, build.typed(build.Shape(name), T.INT64, [other]))
        if rank is not None:
            build.typed(chosen, T.BOOL, [None] * max(ranks[0] or 0, ranks[1] or 0, other or 0))
    joint, total = build.typed(build.Shape(chosen), T.INT64, [rank]), build.Size(chosen)
    both = _one_after_the_other(build, build.Expand(y, joint), build.Expand(x, joint))
    if rank is None:
        place = build.Mul(build.Cast(build.Reshape(chosen, [-1]), to=T.INT64), total)
        place = build.Add(place, flat_indices.count(build, total))
        return str(build.Reshape(build.Gather(both, place, axis=0), joint))
    dims: list[Size] = [build.Gather(joint, axis) for axis in range(rank)]
    base = flat_indices.places(build, dims, flat_indices.strides(build, dims))
    place = build.Mul(build.Cast(chosen, to=T.INT64), total)
    return str(build.Gather(both, flat_indices.plus(build, place, base), axis=0))


changed("Where", 9, Pair(down=chosen_by_arithmetic_or_place))


# --- Trilu --------------------------------------------------------------------------------------------------


@says("Trilu did not exist: what lies beyond the diagonal is replaced by zero.")
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
        raise CannotConvert(node, f"the data has rank {len(shape)}; 2 or more could be expressed")
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
    row = build.Add(row, k) if k != 0 else row
    return str(build.Less(column, row) if upper else build.Greater(column, row))


changed("Trilu", 14, Pair(down=masked_triangle))


# --- IsNaN, IsInf -------------------------------------------------------------------------------------------


@says("IsNaN did not exist: NaN alone is neither less than infinity nor greater than its negative.")
def neither_less_nor_greater(node: Node) -> str:
    build, x, elem_type = node.build, node.input(0), node.elem_type()
    if elem_type == T.FLOAT16:
        x, elem_type = build.Cast(x, to=T.FLOAT), T.FLOAT
    high, low = (build.constant(limit, elem_type) for limit in (float("inf"), float("-inf")))
    return str(build.Not(build.Or(build.Less(x, high), build.Greater(x, low))))


@says("not (x == x), which holds for NaN alone")
def unequal_to_itself(node: Node) -> str:
    kind = node.elem_type()
    x = recast(node.build, node.input(0), kind, wider(kind))
    return str(node.build.Not(node.build.Equal(x, x)))


@says("IsInf did not exist: an infinity is greater than the largest number, or less than its negative.")
def beyond_the_largest_number(node: Node) -> str:
    import numpy as np

    build, x, elem_type = node.build, node.input(0), node.elem_type()
    limits = np.finfo(np.float64 if elem_type == T.DOUBLE else np.float32)
    found = []
    if node.attributes.get("detect_positive", 1):
        found.append(build.Greater(x, build.constant(limits.max, elem_type)))
    if node.attributes.get("detect_negative", 1):
        found.append(build.Less(x, build.constant(limits.min, elem_type)))
    if not found:
        return str(build.Less(x, x))
    return str(found[0] if len(found) == 1 else build.Or(*found))


changed("IsNaN", 9, Pair(down=neither_less_nor_greater))
changed("IsInf", 10, Pair(down=beyond_the_largest_number))
defined("IsNaN", unequal_to_itself, opset=13)

"""Slice: bounds that moved from attributes to inputs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.recipes import wrap_negative
from opshift.passes.operators.shared.shapes import axes_from_front, size_along
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, same
from opshift.passes.rewrite.says import says

T = TensorProto
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@says("Moved starts, ends and axes of Slice from attributes to inputs")
def bounds_to_inputs(node: Node) -> None:
    starts, ends = node.attributes.pop("starts"), node.attributes.pop("ends")
    axes = node.attributes.pop("axes", []) or list(range(len(starts)))
    node.inputs = [node.input(0), *(node.build.constant(tensors.int64s(v)) for v in (starts, ends, axes))]


@says("Moved starts, ends and axes of Slice from inputs to attributes; replaced steps and dynamic bounds by Gather")
def bounds_to_attributes(node: Node) -> Replacement:
    _check_lengths(node)
    starts, ends, axes, steps = (node.scope.ints(node.input(i)) if node.input(i) else [] for i in range(1, 5))
    if starts is None or ends is None or axes is None or steps is None or any(step != 1 for step in steps):
        _check_ends(node, ends or [], steps or [])
        return _gather(node)
    node.inputs = [node.input(0)]
    node.attributes["starts"], node.attributes["ends"] = starts, ends
    if axes:
        node.attributes["axes"] = axes
    return None


def _check_lengths(node: Node) -> None:
    shapes = [node.scope.shape(node.input(index)) for index in range(1, 5) if node.input(index)]
    lengths = sorted({dims[0] for dims in shapes if dims and isinstance(dims[0], int)})
    if len(lengths) > 1:
        raise CannotConvert(
            node,
            f"the inputs starts, ends, axes and steps have different lengths: {' and '.join(map(str, lengths))}",
            supported="equal lengths",
        )


def _check_ends(node: Node, ends: list[int], steps: list[int]) -> None:
    for end, step in zip(ends, steps, strict=False):
        if step < 0 and end in (INT32_MAX, INT64_MAX):
            raise CannotConvert(
                node,
                f"the backward slice has end {end}, which runtimes read as the last element or as before the first",
                supported="any other end",
            )


@says("Replaced negative axes of Slice by positive ones")
def nonnegative_slice_axes(node: Node) -> None:
    if not node.input(3):
        return
    axes, elem_type = node.scope.ints(node.input(3)), node.elem_type(3)
    if axes is not None and all(axis >= 0 for axis in axes):
        return
    build, dims = node.build, node.scope.shape(node.input(0))
    if axes is not None and dims is not None:
        node.set_input(3, build.constant(axes_from_front(node, axes, len(dims)), elem_type, "axes"))
        return
    rank = build.Size(build.Shape(node.input(0)))
    rank = rank if elem_type == T.INT64 else build.Cast(rank, to=elem_type)
    node.set_input(3, wrap_negative(node, node.input(3), rank, elem_type))


def _gather(node: Node) -> str:
    value = node.input(0)
    for axis, start, end, step in _bounds(node):
        indices = _indices(node.build, start, end, step, size_along(node, axis))
        value = str(node.build.Gather(value, indices, axis=axis))
    return value


def _bounds(node: Node) -> Iterator[tuple[int, Size, Size, Size]]:
    """Axis, start, end and step of every slice."""
    axes = node.scope.ints(node.input(3)) if node.input(3) else _leading_axes(node)
    if axes is None:
        yield from _bounds_of_any_axis(node)
        return
    for k, axis in enumerate(axes):
        yield axis, _element(node, 1, k), _element(node, 2, k), _element(node, 4, k) if node.input(4) else 1


def _bounds_of_any_axis(node: Node) -> Iterator[tuple[int, Size, Size, Size]]:
    """Each axis looks up its place in the list of axes; those not listed take the defaults, at place 0.

    Runtimes take negative axes at every version, as the text does from 11 on.
    """
    build, rank = node.build, node.rank()
    numbers = flat_indices.count(build, build.Size(node.input(1)))
    axes, places = numbers, build.Add(numbers, 1)
    if node.input(3):
        axes = build.Concat(_int64(node, 3), build.Add(_int64(node, 3), rank), axis=0)
        places = build.Concat(places, places, axis=0)
    starts, ends, steps = (
        build.Concat([default], _int64(node, index), axis=0) if node.input(index) else None
        for index, default in ((1, 0), (2, INT64_MAX), (4, 1))
    )
    for axis in range(rank):
        hits = build.Cast(build.Equal(axes, axis), to=T.INT64)
        place = build.ReduceSum(build.Mul(hits, places), keepdims=0)
        step = build.Gather(steps, place) if steps else 1
        yield axis, build.Gather(starts, place), build.Gather(ends, place), step


def _leading_axes(node: Node) -> list[int] | None:
    """As many axes as there are bounds; None where their number is known only at run time."""
    lengths = [dims[0] for index in (1, 2, 4) if (dims := node.scope.shape(node.input(index)))]
    return next((list(range(length)) for length in lengths if isinstance(length, int)), None)


def _element(node: Node, index: int, k: int) -> Size:
    held = node.scope.ints(node.input(index))
    return held[k] if held is not None else str(node.build.Gather(_int64(node, index), k))


def _int64(node: Node, index: int) -> str:
    name = node.input(index)
    return name if node.elem_type(index) == T.INT64 else str(node.build.Cast(name, to=T.INT64))


def _indices(build: Builder, start: Size, end: Size, step: Size, size: Size) -> str:
    """start + step * [0, 1, ...] up to end, with start and end counted from the front and clamped."""
    add, sub, mul, div = (_folding(build, op) for op in ("Add", "Sub", "Mul", "Div"))
    backwards: Size = int(step < 0) if isinstance(step, int) else build.Cast(build.Less(step, 0), to=T.INT64)
    sign = sub(1, mul(2, backwards))
    stride = mul(_most(build, step, -INT64_MAX), sign)  # the least integer has no negative
    if not isinstance(stride, int) or stride > INT32_MAX:  # one beyond the size does the same and cannot overflow
        stride = _least(build, stride, _most(build, size, 1))
    last = sub(size, backwards)
    start, end = (_choose(build, bound, 0, add(bound, size), bound) for bound in (start, end))
    start = _least(build, _most(build, start, 0), last)
    end = _least(build, _most(build, end, sub(0, backwards)), last)
    span = _most(build, mul(sub(end, start), sign), 0)
    count = div(add(span, sub(stride, 1)), stride)
    step = mul(stride, sign)
    if isinstance(start, int) and isinstance(step, int) and isinstance(count, int) and count <= tensors.SMALL:
        return build.constant(tensors.int64s(range(start, start + count * step, step)))
    return str(add(start, mul(step, flat_indices.count(build, count))))


_FOLDED: dict[str, tuple[Callable[[int, int], int], int]] = {
    "Add": (operator.add, 0),
    "Sub": (operator.sub, 0),
    "Mul": (operator.mul, 1),
    "Div": (operator.floordiv, 1),
}


def _folding(build: Builder, op: str) -> Callable[[Size, Size], Size]:
    """An operator that works at once where both operands are known, or where one changes nothing."""
    compute, neutral = _FOLDED[op]

    def emit(a: Size, b: Size) -> Size:
        if isinstance(a, int) and isinstance(b, int):
            return compute(a, b)
        if b == neutral:
            return a
        return b if a == neutral and op in ("Add", "Mul") else str(build.emit(op, [a, b]))

    return emit


def _choose(build: Builder, a: Size, b: Size, less: Size, other: Size) -> Size:
    """`less` if a < b, else `other`."""
    if isinstance(a, int) and isinstance(b, int):
        return less if a < b else other
    return str(build.Where(build.Less(a, b), less, other))


def _least(build: Builder, a: Size, b: Size) -> Size:
    return _choose(build, a, b, a, b)


def _most(build: Builder, a: Size, b: Size) -> Size:
    return _choose(build, a, b, b, a)


changed("Slice", 10, Pair(up=bounds_to_inputs, down=bounds_to_attributes))
changed("Slice", 11, Pair(down=nonnegative_slice_axes))
same("Slice", 13, "bfloat16 added; the text states how bounds are clamped, as runtimes did before")

"""Pad: its parameters moved from attributes to inputs, and modes, axes and types came."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import carrier_casts
from opshift.passes.rewrite.builder import Builder, Operand
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto

FLOATS = (T.FLOAT16, T.FLOAT, T.DOUBLE)
LONG = (T.INT64, T.UINT64)
ONLY_MOVED: dict[int, str | int] = {
    T.STRING: "",
    T.COMPLEX64: 0,
    T.COMPLEX128: 0,
}  # with the value that is filled in by default
END = 2**63 - 1
FLOAT8 = (T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ)
MODES = ("constant", "reflect", "edge", "wrap")


# --- 1 and 2: what paddings means ---------------------------------------------------------------------------


@says("Renamed paddings of Pad to pads, with all begins first")
def paddings_to_pads(node: Node) -> None:
    paddings = node.attributes.pop("paddings")
    half = len(paddings) // 2
    by_axis = paddings[0::2] + paddings[1::2]
    if by_axis != paddings:
        shape, result = node.scope.shape(node.input(0)), node.scope.shape(node.outputs[0])
        fits = [pads for pads in (paddings, by_axis) if _leads_to(pads, half, shape, result)]
        if len(fits) != 1 or shape is None or result is None:
            raise CannotConvert(
                node,
                f"paddings={paddings} can mean two things: all begins first, or begin and end axis by axis",
                supported="a list that is the same both ways, or shapes that tell which it is",
            )
        paddings = fits[0]
    node.attributes["pads"] = paddings


def _leads_to(pads: list[int], rank: int, shape: Sequence[object] | None, result: Sequence[object] | None) -> bool:
    if shape is None or result is None or not len(shape) == len(result) == rank:
        return False
    return all(
        not isinstance(before, int) or not isinstance(after, int) or before + begin + end == after
        for before, after, begin, end in zip(shape, result, pads[:rank], pads[rank:], strict=True)
    )


@says("Renamed pads of Pad to paddings; replaced negative pads by a Slice")
def pads_to_paddings(node: Node) -> None:
    pads = node.attributes.pop("pads")
    if any(pad < 0 for pad in pads):
        node.set_input(0, _crop(node.build, node.input(0), pads))
    node.attributes["paddings"] = [max(pad, 0) for pad in pads]


def _crop(build: Builder, x: str, pads: list[int]) -> str:
    half = len(pads) // 2
    axes = [axis for axis in range(half) if pads[axis] < 0 or pads[axis + half] < 0]
    starts = [max(-pads[axis], 0) for axis in axes]
    ends = [min(pads[axis + half], 0) or END for axis in axes]
    if build.opset < 10:
        return str(build.Slice(x, starts=starts, ends=ends, axes=axes))
    return str(build.Slice(x, starts, ends, axes))


# --- 2 and 11: attributes and inputs ------------------------------------------------------------------------


@says("Moved pads and value of Pad from attributes to inputs")
def attributes_to_inputs(node: Node) -> None:
    pads, value = node.attributes.pop("pads"), node.attributes.pop("value", 0.0)
    node.set_input(1, node.build.constant(tensors.int64s(pads), hint="pads"))
    if node.attributes.get("mode", "constant") == "constant" and str(value) != "0.0":
        node.set_input(2, node.build.constant(value, node.elem_type()))


@says("Moved pads and value of Pad from inputs to attributes; replaced dynamic ones by Concat")
def inputs_to_attributes(node: Node) -> Replacement:
    mode, pads = _mode(node), node.scope.ints(node.input(1))
    if pads is None:
        return _with_runtime_pads(node, mode)
    elem_type, fill = node.elem_type(), _in_float32(node) if mode == "constant" else 0.0
    if fill is None or (fill and elem_type in LONG):
        return _fill_padding(node, pads, elem_type)
    if elem_type not in FLOATS:
        return _pad_integers(node.build, node.input(0), elem_type, {"mode": mode, "pads": pads, "value": fill})
    node.inputs = node.inputs[:1]
    node.attributes["pads"] = pads
    if str(fill) != "0.0":
        node.attributes["value"] = fill
    return None


def _mode(node: Node) -> str:
    mode = str(node.attributes.get("mode", "constant"))
    if mode not in MODES:
        raise CannotConvert(node, f"mode={mode}", supported=f"{', '.join(MODES)}")
    return mode


def _in_float32(node: Node) -> float | None:
    """The value that is filled in, if it is constant and a float32 holds it."""
    import numpy as np

    if not node.input(2):
        return 0.0
    held = node.scope.array(node.input(2))
    if held is None or held.size != 1:
        return None
    value = held.reshape(-1)[0].item()
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    return single if single == value or value != value else None


def _pad_integers(build: Builder, x: str, elem_type: int, how: dict[str, object]) -> str:
    """Integers of 32 bits fit into a double; longer ones are padded in two halves."""

    def pad(value: str) -> str:
        return str(build.Cast(build.emit("Pad", [build.Cast(value, to=T.DOUBLE)], how), to=elem_type))

    if elem_type not in LONG:
        return pad(x)
    base = build.constant(2**32, elem_type)
    high = build.Div(x, base)
    low = build.Sub(x, build.Mul(high, base))
    return str(build.Add(build.Mul(pad(high), base), pad(low)))


def _fill_padding(node: Node, pads: list[int], elem_type: int) -> str:
    """Pad zeros, and select the value there, as a float attribute cannot hold it."""
    build, x, how = node.build, node.input(0), dict[str, object](pads=pads)
    zeros = build.ConstantOfShape(build.Shape(x))
    padded = build.Cast(build.emit("Pad", [zeros], {**how, "value": 1.0}), to=T.BOOL)
    data = build.emit("Pad", [x], how) if elem_type in FLOATS else _pad_integers(build, x, elem_type, how)
    return str(build.Where(padded, build.Reshape(node.input(2), []), data))


def _with_runtime_pads(node: Node, mode: str) -> str:
    """What is cropped is cut off; blocks of the value are joined to each axis, or its elements repeated."""
    build, rank, pads = node.build, node.rank(), node.input(1)
    x, added = _crop_at_runtime(build, node.input(0), pads, rank)
    if mode != "constant":
        return _gather(node, x, added, rank, mode)
    fill = node.input(2) or build.constant(0, node.elem_type())
    for axis in range(rank):
        here = build.constant([k == axis for k in range(rank)], T.BOOL)
        blocks = [
            build.Expand(fill, build.Where(here, build.Gather(added, [end]), build.Shape(x)))
            for end in (axis, axis + rank)
        ]
        x = build.Concat(blocks[0], x, blocks[1], axis=axis)
    return x


def _crop_at_runtime(build: Builder, x: str, pads: str, rank: int) -> tuple[str, str]:
    """The data without what negative pads take away, and the pads without the negative ones."""
    added = build.Where(build.Less(pads, 0), 0, pads)
    removed = build.Sub(added, pads)
    starts = build.Gather(removed, list(range(rank)))
    ends = build.Sub(build.Shape(x), build.Gather(removed, list(range(rank, 2 * rank))))
    return str(build.Slice(x, starts, ends, list(range(rank)))), str(added)


# --- 13: types that can only be moved -----------------------------------------------------------------------


@says("Padded bool as uint8; padded strings and complex numbers by their positions")
def positions_instead_of_values(node: Node) -> Replacement:
    elem_type, mode = node.elem_type(), _mode(node)
    if elem_type not in ONLY_MOVED:
        return carrier_casts({T.BOOL: T.UINT8})(node)
    build, x = node.build, node.input(0)
    size, flat = build.Size(x), build.Reshape(x, [-1])
    inputs = [build.Reshape(build.Range(0, size, 1), build.Shape(x)), node.input(1)]
    if mode == "constant":
        fill = node.input(2) or build.constant(ONLY_MOVED[elem_type], elem_type)
        flat = build.Concat(flat, build.Reshape(fill, [1]), axis=0)
        inputs.append(size)
    return str(build.Gather(flat, build.again(node.proto, inputs)))


# --- 18: axes -----------------------------------------------------------------------------------------------


@says("Replaced the input axes of Pad by pads of 0 for the other axes")
def pads_of_all_axes(node: Node) -> None:
    if not node.input(3):
        return
    shape, axes, pads = (
        node.scope.shape(node.input(0)),
        node.scope.ints(node.input(3)),
        node.scope.ints(node.input(1)),
    )
    if axes is None or shape is None:
        full = _scatter_at_runtime(node)
    elif any(not -len(shape) <= axis < len(shape) for axis in axes):
        raise CannotConvert(node, f"axes={axes} are out of range for rank {len(shape)}")
    else:
        axes = [axis % len(shape) for axis in axes]
        given = node.scope.shape(node.input(1)) if pads is None else [len(pads)]
        if given and isinstance(given[0], int) and given[0] != 2 * len(axes):
            raise CannotConvert(node, f"there are {given[0]} pads for {len(axes)} axes", supported="two for each")
        places, zeros = axes + [axis + len(shape) for axis in axes], [0] * (2 * len(shape))
        if pads is None:
            chosen = [places.index(k) if k in places else len(places) for k in range(len(zeros))]
            full = node.build.Gather(node.build.Concat(node.input(1), [0], axis=0), chosen)
        else:
            for place, pad in zip(places, pads, strict=True):
                zeros[place] = pad
            full = node.build.constant(tensors.int64s(zeros), hint="pads")
    node.inputs = [node.input(0), full, node.input(2)]


def _scatter_at_runtime(node: Node) -> str:
    build, dims = node.build, node.scope.rank(node.input(3))
    if dims not in (None, 1):
        raise CannotConvert(node, f"axes has rank {dims}", supported="a vector")
    rank = build.Size(build.Shape(node.input(0)))
    axes = build.Cast(node.input(3), to=T.INT64)
    axes = build.Where(build.Less(axes, 0), build.Add(axes, rank), axes)
    zeros = build.ConstantOfShape(build.Reshape(build.Mul(rank, 2), [1]), value=tensors.int64s([0]))
    return str(build.ScatterElements(zeros, build.Concat(axes, build.Add(axes, rank), axis=0), node.input(1)))


# --- 19: wrap -----------------------------------------------------------------------------------------------


@says("Replaced Pad with mode wrap by Gather")
def wrap_by_gather(node: Node) -> Replacement:
    if _mode(node) != "wrap":
        return None
    rank = node.rank()
    pads_of_all_axes(node)
    pads = node.scope.ints(node.input(1))
    if pads is None:
        x, added = _crop_at_runtime(node.build, node.input(0), node.input(1), rank)
        return _gather(node, x, added, rank, "wrap")
    x = _crop(node.build, node.input(0), pads) if min(pads, default=0) < 0 else node.input(0)
    return _gather(node, x, [max(pad, 0) for pad in pads], rank, "wrap")


def _gather(node: Node, x: str, added: list[int] | str, rank: int, mode: str) -> str:
    build = node.build
    for axis in range(rank):
        before, after = (
            build.Gather(added, [end]) if isinstance(added, str) else [added[end]] for end in (axis, axis + rank)
        )
        if before == after == [0]:
            continue
        size = build.Gather(build.Shape(x), [axis])
        x = build.Gather(x, _sources(build, size, before, after, mode), axis=axis)
    return x


def _sources(build: Builder, size: str, before: Operand, after: Operand, mode: str) -> str:
    """For each position of the padded axis the position in the data that it repeats."""
    length = build.Add(build.Add(size, before), after)
    position = build.Sub(flat_indices.count(build, build.Reshape(length, [])), before)
    last = size if mode == "wrap" else build.Sub(size, 1)
    if mode == "edge":
        inside = build.Where(build.Less(position, size), position, last)
        return str(build.Where(build.Less(position, 0), 0, inside))
    period = build.Mul(last, 2) if mode == "reflect" else size
    period = build.Where(build.Less(period, 1), 1, period)
    position = build.Mod(position, period)
    return str(position if mode == "wrap" else build.Sub(last, build.Abs(build.Sub(last, position))))


# --- where a backend lacks it ---------------------------------------------------------------------------------

_MOST_ELEMENTS, _MOST_COPIES = 1 << 20, 64


@says("Replaced Pad by Concat of the data with constants, or with slices of the data")
def blocks_side_by_side(node: Node) -> str:
    build, x, mode, rank = node.build, node.input(0), node.attributes.get("mode", "constant"), node.rank()
    pads = node.scope.ints(node.input(1))
    axes = node.scope.ints(node.input(3)) if node.input(3) else list(range(rank))
    if pads is None or axes is None:
        raise CannotConvert(node, f'the pads "{node.input(1)}" are not constant', supported="constant pads")
    dims = list(node.scope.shape(x) or [])
    for axis, begin, end in zip((axis % rank for axis in axes), pads, pads[len(axes) :], strict=False):
        if begin < 0 or end < 0:
            x = str(build.Slice(x, [max(-begin, 0)], [min(end, 0) or END], [axis]))
            dims[axis] = _add(dims[axis], min(begin, 0) + min(end, 0))
        counts = max(begin, 0), max(end, 0)
        make = _constant_block if mode == "constant" else _repeated_block
        before, after = (make(node, x, dims, axis, count, place) if count else "" for place, count in enumerate(counts))
        if before or after:
            x = str(build.Concat(*filter(None, [before, x, after]), axis=axis))
            dims[axis] = _add(dims[axis], sum(counts))
    return x if x != node.input(0) else str(build.Identity(x))


def _add(size: Dim, count: int) -> Dim:
    return size + count if isinstance(size, int) else None


def _constant_block(node: Node, x: str, dims: Sequence[Dim], axis: int, count: int, place: int) -> str:
    """Make as many elements of one value as are put in front of the data, or behind it."""
    sizes = [count if other == axis else dim for other, dim in enumerate(dims)]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        raise CannotConvert(node, f'"{node.input(0)}" has dynamic sizes', supported="fixed sizes; try --fix-shape")
    value = node.scope.array(node.input(2)) if node.input(2) else np.zeros(())
    if value is None or prod(known) > _MOST_ELEMENTS:
        found = f"{'x'.join(map(str, known))} elements of {'0' if value is not None else node.input(2)}"
        raise CannotConvert(node, found, supported=f"at most {_MOST_ELEMENTS} elements of a constant")
    return node.build.constant(np.full(known, value.reshape(())), node.elem_type())


def _repeated_block(node: Node, x: str, dims: Sequence[Dim], axis: int, count: int, place: int) -> str:
    """Slice what is repeated in front of the data (place 0) or behind it: mirrored, one element, or the other end."""
    build, mode, size = node.build, node.attributes.get("mode"), dims[axis]
    most = size - (mode == "reflect") if isinstance(size, int) else None
    if mode != "edge" and (most is None or count > most):
        found = f"{count} elements are put beside an axis of {'dynamic length' if most is None else size}"
        raise CannotConvert(node, found, supported="fixed sizes, and not more elements; try --fix-shape")
    if mode == "reflect":
        bounds = ([-2], [-count - 2]) if place else ([count], [0])
        return str(build.Slice(x, *bounds, [axis], [-1]))
    if mode == "wrap":
        return str(build.Slice(x, [0], [count], [axis]) if place else build.Slice(x, [-count], [END], [axis]))
    if count > _MOST_COPIES:
        raise CannotConvert(node, f"{count} copies of an edge", supported=f"at most {_MOST_COPIES}")
    last = build.Slice(x, [-1], [END], [axis]) if place else build.Slice(x, [0], [1], [axis])
    return str(build.Concat(*[last] * count, axis=axis) if count > 1 else last)


defined("Pad", blocks_side_by_side, opset=13)
changed("Pad", 2, Pair(up=paddings_to_pads, down=pads_to_paddings))
changed("Pad", 11, Pair(up=attributes_to_inputs, down=inputs_to_attributes))
changed("Pad", 13, Pair(down=positions_instead_of_values))
changed("Pad", 18, Pair(down=pads_of_all_axes))
changed("Pad", 19, Pair(down=wrap_by_gather))
changed("Pad", 21, Pair(down=carrier_casts(dict.fromkeys(FLOAT8, T.FLOAT16))))

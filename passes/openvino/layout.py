"""Layers that change shapes and places, not values."""

from __future__ import annotations

from math import prod

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer
from opshift.passes.openvino.sizes import Size

T = TensorProto
END = 2**63 - 1  # beyond every tensor


@layer("Reshape")
def reshape(of: Layer) -> Made:
    """A 0 copies a dimension with `special_zero`, and is an empty one without."""
    held = of.constant(1)
    literal = not of.flag("special_zero", False) and (held is None or 0 in held)
    if literal and held is not None and -1 in held:
        raise Unmapped("the shape has both 0 and -1", supported="one of them")
    if not literal and held is not None and -1 in held:
        return _beside_copies(of, held)
    if not literal and held is None and _may_copy_none(of):
        return str(of.build.Reshape(of.input(0), _describe(of), allowzero=1))
    return str(of.build.Reshape(of.input(0), of.vector(1), allowzero=1 if literal else None))


def _beside_copies(of: Layer, wanted: list[int]) -> str:
    """A -1 is what the other sizes leave, those aside that are copied; ONNX has none beside a copied size of 0."""
    dims, copied = of.dims() or [], [place for place, size in enumerate(wanted) if size == 0]
    if max(copied, default=-1) >= len(dims) or all(dims[place] > 0 for place in copied):
        return str(of.build.Reshape(of.input(0), of.vector(1)))
    rest, others = [place for place in range(len(dims)) if place not in copied], prod(s for s in wanted if s > 0)
    known = all(dims[place] > 0 for place in rest)
    held: list[Size] = [dim if place in rest else 0 for place, dim in enumerate(dims)] if known else sizes.dims(of)
    left = sizes.over(of, sizes.times(of, *(held[place] for place in rest)), others)
    made = [held[place] if size == 0 else left if size == -1 else size for place, size in enumerate(wanted)]
    return str(of.build.Reshape(of.input(0), sizes.vector(of, made), allowzero=None if known else 1))


def _may_copy_none(of: Layer) -> bool:
    """Whether a size of 0 may be one that a target of the run time copies, beside a -1."""
    dims, wanted = of.dims(), of.dims(1)
    if dims is None or wanted is None or len(wanted) != 1 or wanted[0] < 2:
        return False
    return any(dim <= 0 for dim in dims[: wanted[0]])


def _describe(of: Layer) -> str:
    """What a target of the run time stands for: 0 copies a size, and -1 is what those leave that are not copied."""
    b, target, rank, count = of.build, of.vector(1), of.rank(), of.length(1)
    own = b.Shape(of.input(0), end=count if count < rank else None)
    if count > rank:
        own = b.Concat(own, [1] * (count - rank), axis=0)
    copied = b.Equal(target, 0)
    others = b.Where(copied, 1, own)
    if count < rank:
        others = b.Concat(others, b.Shape(of.input(0), start=count), axis=0)
    rest = b.Div(b.ReduceProd(others, keepdims=1), b.ReduceProd(b.Max(b.Abs(target), 1), keepdims=1))
    return str(b.Where(b.Less(target, 0), rest, b.Where(copied, own, target)))


@layer("Transpose")
def transpose(of: Layer) -> Made:
    """By an order of the run time, each element is gathered from its place in flat data; by none, axes turn around."""
    order, b = of.constant(1), of.build
    if order is not None:
        return str(b.Transpose(of.input(0), perm=order or None))
    dims, wanted = sizes.dims(of), of.vector(1)
    rank = len(dims)
    if of.dims(1) != [rank]:
        around = b.constant(list(reversed(range(rank))), T.INT64)
        wanted = b.Slice(b.Concat(wanted, around, axis=0), [0], [rank])
    steps = sizes.vector(of, [sizes.times(of, *dims[axis + 1 :]) for axis in range(rank)])
    counts, steps = (b.Gather(vector, wanted, axis=0) for vector in (sizes.vector(of, dims), steps))
    places = b.constant([0] if rank else 0, T.INT64)
    for axis in range(rank):
        count, step = (b.Gather(vector, axis) for vector in (counts, steps))
        along = b.Mul(b.Range(0, count, 1), step)
        places = b.Add(places, b.Reshape(along, [-1] + [1] * (rank - 1 - axis)))
    return str(b.Gather(b.Reshape(of.input(0), [-1]), places, axis=0))


@layer("Squeeze")
def squeeze(of: Layer) -> Made:
    """With `allow_axis_skip`, an axis of another size stays."""
    skips = of.flag("allow_axis_skip", False)
    if not of.has(1) or of.constant(1) == [] or (of.dims(1) or [-1])[0] == 0:
        return str(of.build.Squeeze(of.input(0)))
    held, dims = of.constant(1), of.dims()
    if held is not None and dims is not None:
        others = [axis for axis in held if dims[of.normal(axis, len(dims))] not in (1, -1)]
        if others and not skips:
            raise Unmapped(f"axis {others[0]} has size {dims[others[0]]}, and only size 1 can be squeezed")
        if skips and any(dims[of.normal(axis, len(dims))] < 0 for axis in held):
            return _without_ones(of)
        ones = [axis for axis in held if axis not in others]
        return str(of.build.Squeeze(of.input(0), ones)) if ones else of.input(0)
    return _without_ones(of) if skips else str(of.build.Squeeze(of.input(0), of.vector(1)))


def _without_ones(of: Layer) -> str:
    """Without those of the axes that have one element, which only the run tells."""
    of.length(1)  # for no axes are all of one element
    b, rank, shape = of.build, of.rank(), of.build.Shape(of.input(0))
    named = b.ScatterElements([0] * rank, of.vector(1), b.Expand([1], b.Shape(of.vector(1))))
    kept = b.Compress(shape, b.Or(b.Equal(named, 0), b.Not(b.Equal(shape, 1))), axis=0)
    return str(b.Reshape(of.input(0), kept, allowzero=1))


@layer("Unsqueeze")
def unsqueeze(of: Layer) -> Made:
    return str(of.build.Unsqueeze(of.input(0), of.vector(1)))


@layer("Concat")
def concat(of: Layer) -> Made:
    return str(of.build.Concat(*of.inputs, axis=of.integer("axis")))


@layer("Split")
def split(of: Layer) -> Made:
    """Into equal parts."""
    held, parts = of.constant(1), of.integer("num_splits")
    if not 0 < parts == len(of.entry.outputs):
        raise Unmapped(f"num_splits={parts}, but {len(of.entry.outputs)} outputs")
    if held is None:
        whole = of.build.Gather(of.build.Shape(of.input(0)), of.vector(1), axis=0)
        return _slices(of, [of.build.Div(whole, [parts])] * parts)
    axis, dims = held[0], of.dims()
    if dims is not None and dims[of.normal(axis, len(dims))] % parts and dims[of.normal(axis, len(dims))] > 0:
        raise Unmapped(f"{dims[axis]} elements do not divide into {parts} parts", supported="equal parts")
    made = of.build.emit("Split", [of.input(0)], {"axis": axis, "num_outputs": parts}, outputs=parts)
    return [made] if isinstance(made, str) else list(made)


@layer("VariadicSplit")
def variadic_split(of: Layer) -> Made:
    """Into parts of given lengths, of which one may be -1: the rest."""
    held, lengths, parts = of.constant(1), of.constant(2), len(of.entry.outputs)
    wanted = of.vector(2)
    if lengths is None:
        b = of.build
        others = b.Add(b.ReduceSum(wanted, [0], keepdims=1), [1])
        rest = b.Sub(b.Gather(b.Shape(of.input(0)), of.vector(1)), others)
        wanted = str(b.Where(b.Less(wanted, [0]), rest, wanted))
    elif -1 in lengths:
        wanted = _with_rest(of, lengths)
    if held is None:
        return _slices(of, [str(of.build.Slice(wanted, [k], [k + 1])) for k in range(parts)])
    axis = held[0]
    made = of.build.emit("Split", [of.input(0), wanted], {"axis": axis}, outputs=parts)
    return [made] if isinstance(made, str) else list(made)


def _with_rest(of: Layer, lengths: list[int]) -> str:
    """The lengths with what is left of the axis in the place of -1."""
    held, dims, others = of.constant(1), of.dims(), sum(lengths) + 1
    if held is not None and dims is not None and (size := dims[of.normal(held[0], len(dims))]) >= 0:
        return str(of.build.constant([size - others if n == -1 else n for n in lengths], T.INT64))
    whole = of.build.Gather(of.build.Shape(of.input(0)), of.vector(1))
    rest = of.build.Sub(whole, [others])
    return str(of.build.Concat(*(rest if n == -1 else of.build.constant([n], T.INT64) for n in lengths), axis=0))


def _slices(of: Layer, lengths: list[str]) -> list[str]:
    """Parts along an axis of the run time, which Slice alone takes as an input."""
    b, axis, parts = of.build, of.vector(1), list[str]()
    end = b.constant([0], T.INT64)
    for length in lengths:
        start, end = end, b.Add(end, length)
        parts.append(b.Slice(of.input(0), start, end, axis))
    return parts


@layer("Broadcast")
def broadcast(of: Layer) -> Made:
    """Explicitly, the axes of the data stand, in their order, where a third input says."""
    mode, b, data = of.choice("mode", ("numpy", "bidirectional", "explicit"), "numpy"), of.build, of.input(0)
    if mode != "explicit":
        return str(b.Expand(data, of.vector(1)))
    axes, rank = of.constant(2), of.length(1)
    if axes is None:
        placed = b.Reshape(data, b.ScatterElements([1] * rank, of.vector(2), b.Shape(data)), allowzero=1)
        return str(b.Expand(placed, of.vector(1)))
    if sorted(axes) != axes or len(axes) != of.rank():
        raise Unmapped(f"axes_mapping={axes}", supported="an ascending axis for each dimension")
    others = [axis for axis in range(rank) if axis not in axes]
    placed = b.Unsqueeze(data, others) if others else data
    return str(b.Expand(placed, of.vector(1)))


@layer("Tile")
def tile(of: Layer) -> Made:
    """Repeats and dimensions are aligned at the last one."""
    rank, count = of.rank(), of.length(1)
    data, repeats = of.input(0), of.vector(1)
    if count > rank:
        data = of.build.Unsqueeze(data, list(range(count - rank)))
    elif count < rank:
        repeats = of.build.Concat(of.build.constant([1] * (rank - count), T.INT64), repeats, axis=0)
    return str(of.build.Tile(data, repeats))


@layer("ShapeOf")
def shape_of(of: Layer) -> Made:
    return of.cast(of.build.Shape(of.input(0)), of.element_type("output_type", "i64"))


@layer("Pad")
def pad(of: Layer) -> Made:
    mode = of.choice("pad_mode", ("constant", "edge", "reflect", "symmetric"))
    begin, end = of.constant(1), of.constant(2)
    if mode != "constant" and (begin is None or end is None or min([*begin, *end], default=0) < 0):
        raise Unmapped(f"pad_mode={mode} with a negative or unknown width")
    if mode == "symmetric":
        return _mirror(of, begin or [], end or [])
    pads = (
        of.build.constant([*begin, *end], T.INT64)
        if begin is not None and end is not None
        else of.build.Concat(of.vector(1), of.vector(2), axis=0)
    )
    value = of.input(3) if mode == "constant" and of.has(3) else None
    return str(of.build.Pad(of.input(0), pads, value, mode=mode))


def _mirror(of: Layer, begin: list[int], end: list[int]) -> str:
    """Each axis with its first and last elements turned round before and behind it."""
    value, b = of.input(0), of.build
    for axis, (before, after) in enumerate(zip(begin, end, strict=True)):
        parts = [value]
        if before:
            parts.insert(0, b.Slice(value, [before - 1], [-END], [axis], [-1]))
        if after:
            parts.append(b.Slice(value, [-1], [-after - 1], [axis], [-1]))
        value = b.Concat(*parts, axis=axis) if len(parts) > 1 else value
    return value


@layer("ReverseSequence")
def reverse_sequence(of: Layer) -> Made:
    batch, time = of.integer("batch_axis", 0), of.integer("seq_axis", 1)
    rank = of.rank()
    batch, time = of.normal(batch, rank), of.normal(time, rank)
    if 0 in (of.dims() or ()):  # where no length is one of the lengths that ONNX takes
        return of.input(0)
    if {batch, time} == {0, 1}:
        return str(of.build.ReverseSequence(of.input(0), of.vector(1), batch_axis=batch, time_axis=time))
    order = [batch, time, *(axis for axis in range(rank) if axis not in (batch, time))]
    moved = of.permute(of.input(0), order)
    made = of.build.ReverseSequence(moved, of.vector(1), batch_axis=0, time_axis=1)
    return of.permute(made, [order.index(axis) for axis in range(rank)])


@layer("Reverse")
def reverse(of: Layer) -> Made:
    """The axes are a set: what is named twice is reversed once."""
    mask, b = of.choice("mode", ("index", "mask")) == "mask", of.build
    if (held := of.constant(1)) is not None:
        axes = [axis for axis, flag in enumerate(held) if flag] if mask else sorted(set(of.axes(1, of.rank())))
        ones = [-1] * len(axes)
        return str(b.Slice(of.input(0), ones, [-END] * len(axes), axes, ones)) if axes else of.input(0)
    flags = of.input(1)
    if not mask:
        flags = b.ScatterElements([0] * of.rank(), of.vector(1), b.Expand([1], b.Shape(of.vector(1))))
    named = b.Squeeze(b.NonZero(flags), [0])
    ones = b.Expand([-1], b.Shape(named))
    return str(b.Slice(of.input(0), ones, b.Expand([-END], b.Shape(named)), named, ones))


@layer("Roll")
def roll(of: Layer) -> Made:
    """Each axis in turn: its last part comes first. An axis that is named twice is rolled by the sum."""
    held, dims, value = of.constant(2), sizes.dims(of), of.input(0)
    if held is None:
        turns = [(axis, _turn(of, axis)) for axis in range(len(dims))]
    else:
        shifts = sizes.elements(of, 1)
        turns = list(zip(held, shifts * len(held) if len(shifts) == 1 else shifts, strict=True))
    for axis, shift in turns:
        size = dims[of.normal(axis, len(dims))]
        cut = sizes.modulo(of, sizes.minus(of, 0, shift), sizes.larger(of, size, 1))
        if cut != 0:
            at = sizes.one(of, cut)
            parts = of.build.Slice(value, at, [END], [axis]), of.build.Slice(value, [0], at, [axis])
            value = of.build.Concat(*parts, axis=axis)
    return str(value)


def _turn(of: Layer, axis: int) -> Size:
    """By how much an axis is rolled where only the run tells which axes are: the sum of the shifts that name it."""
    b, named = of.build, of.vector(2)
    here = b.Or(b.Equal(named, [axis]), b.Equal(named, [axis - of.rank()]))
    return str(b.ReduceSum(b.Mul(b.Cast(here, to=T.INT64), of.vector(1)), keepdims=1))

"""Layers that choose elements by their places, or put some there."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino import sizes
from opshift.passes.openvino.axes import along, axes_of
from opshift.passes.openvino.layer import FLOATS, SIGNED, UNSIGNED, Layer, Made, Unmapped, layer
from opshift.passes.openvino.sizes import Size

T = TensorProto
END, START = 2**63 - 1, -(2**63) + 1  # beyond every tensor
LARGE = 2**31 - 2  # beyond every tensor, and not the largest number of any type


@layer("Gather")
def gather(of: Layer) -> Made:
    """Before version 8 no index is negative."""
    held, batch = of.constant(1), of.integer("batch_dims", 0)
    if of.version < 8 and held is not None and min(held, default=0) < 0:
        raise Unmapped("a negative index, which this version does not define")
    b, places, axis = of.build, _places(of, 1), of.constant(2)
    if axis is not None and not batch:
        return str(b.Gather(of.input(0), places, axis=axis[0]))
    batch += of.rank(1) if batch < 0 else 0
    (where, *_) = axes_of(of, 2, of.rank())
    own = b.Shape(places, start=batch) if isinstance(where, str) else None

    def take(data: str, at: int) -> str:
        return _gather_each(of, data, at, batch) if batch else str(b.Gather(data, places, axis=at))

    return along(of, of.input(0), where, take, own, first=batch)


def _gather_each(of: Layer, data: str, axis: int, batch: int) -> str:
    """From each of a batch by indices of its own: GatherND takes them from the first axis behind the batch."""
    rank, places = len(of.dims_of(data) or ()), of.rank(1)
    order = [*range(batch), axis, *(a for a in range(batch, rank) if a != axis)]
    found = of.build.GatherND(of.permute(data, order), of.build.Unsqueeze(of.int64(1), [-1]), batch_dims=batch)
    own = list(range(batch, places))  # of the result: batch, indices, the axes before, the axes behind
    rest = [places + index for index in range(rank - batch - 1)]
    between = axis - batch
    return of.permute(found, [*range(batch), *rest[:between], *own, *rest[between:]])


def _places(of: Layer, index: int) -> str:
    return of.input(index) if of.elem_type(index) in (T.INT32, T.INT64) else of.int64(index)


@layer("GatherElements")
def gather_elements(of: Layer) -> Made:
    return str(of.build.GatherElements(of.input(0), _places(of, 1), axis=of.integer("axis")))


@layer("GatherND")
def gather_nd(of: Layer) -> Made:
    batch = of.integer("batch_dims", 0)
    if of.version < 8 and batch > 1:
        raise Unmapped(f"batch_dims={batch} in version {of.version}", supported="0 or 1")
    return str(of.build.GatherND(of.input(0), of.int64(1), batch_dims=batch))


@layer("ScatterElementsUpdate")
def scatter_elements(of: Layer) -> Made:
    reduction = _reduction(of, {"none": "none", "sum": "add", "prod": "mul", "min": "min", "max": "max"})
    if reduction != "none" and not of.flag("use_init_val", True):
        raise Unmapped("use_init_val=false", supported="true")
    data, updates, combined = of.input(0), of.input(2), _unless_none(reduction)
    if (axis := of.constant(3)) is not None:
        return str(of.build.ScatterElements(data, _places(of, 1), updates, axis=axis[0], reduction=combined))
    return str(of.build.ScatterND(data, _whole_places(of), updates, reduction=combined))


def _whole_places(of: Layer) -> str:
    """Where each update belongs: its own place, but for the axis, of which only the run tells which one it is."""
    b, rank, given = of.build, of.rank(), of.int64(1)
    (axis,) = axes_of(of, 3, rank)
    parts = []
    for place in range(rank):
        own = b.Range(0, b.Squeeze(b.Shape(given, start=place, end=place + 1), [0]), 1)
        own = b.Reshape(own, [-1] + [1] * (rank - 1 - place))
        parts.append(b.Unsqueeze(b.Where(b.Equal(axis, [place]), given, own), [-1]))
    return str(b.Concat(*parts, axis=-1))


@layer("ScatterNDUpdate")
def scatter_nd(of: Layer) -> Made:
    """What is subtracted is added with the other sign."""
    known = {"none": "none", "sum": "add", "sub": "add", "prod": "mul", "min": "min", "max": "max"}
    reduction, updates = _reduction(of, known), of.input(2)
    if of.text("reduction", "none") == "sub":
        if of.elem_type(2) in UNSIGNED:
            raise Unmapped("reduction=sub of unsigned integers", supported="signed integers")
        updates = of.build.Neg(updates)
    return str(of.build.ScatterND(of.input(0), of.int64(1), updates, reduction=_unless_none(reduction)))


def _reduction(of: Layer, known: dict[str, str]) -> str:
    return known[of.choice("reduction", list(known), "none")]


def _unless_none(reduction: str) -> str | None:
    return None if reduction == "none" else reduction


@layer("ScatterUpdate")
def scatter_update(of: Layer) -> Made:
    """Whole slices of an axis are replaced, which ScatterND does at the first one."""
    rank, places = of.rank(), of.rank(1)
    (axis,) = axes_of(of, 3, rank)
    if isinstance(axis, str):
        return along(of, of.input(0), axis, lambda x, at: _replace_slices(of, x))
    order = [axis, *(a for a in range(rank) if a != axis)]
    data = of.permute(of.input(0), order)
    spread = [*range(axis, axis + places), *range(axis), *range(axis + places, rank + places - 1)]
    updates = of.permute(of.input(2), spread)
    made = of.build.ScatterND(data, of.build.Unsqueeze(of.int64(1), [-1]), updates)
    return of.permute(made, [order.index(a) for a in range(rank)])


def _replace_slices(of: Layer, data: str) -> str:
    """Slices of the middle one of three axes."""
    b, places = of.build, of.vector(1)
    ends = b.Concat(b.Shape(data, end=1), b.Shape(places), b.Shape(data, start=2), axis=0)
    updates = b.Reshape(of.input(2), ends, allowzero=1)
    first, others = (b.Transpose(value, perm=[1, 0, 2]) for value in (data, updates))
    return str(b.Transpose(b.ScatterND(first, b.Unsqueeze(places, [-1]), others), perm=[1, 0, 2]))


@layer("Slice")
def slice_(of: Layer) -> Made:
    """Data, start, stop, step, axes."""
    axes = of.vector(4) if of.has(4) else None
    return str(of.build.Slice(of.input(0), of.vector(1), _stops(of, 2), axes, of.vector(3)))


@layer("SliceScatter")
def slice_scatter(of: Layer) -> Made:
    """Data, what is put there, start, stop, step, axes: the places of a slice in the flattened data."""
    b, data, axes = of.build, of.input(0), of.vector(5) if of.has(5) else None
    count = b.Squeeze(b.Reshape(b.Size(data), [1]), [0])
    places = b.Reshape(b.Range(0, count, 1), b.Shape(data), allowzero=1)
    places = b.Slice(places, of.vector(2), _stops(of, 3), axes, of.vector(4))
    flat = [b.Reshape(value, [-1]) for value in (data, places, of.input(1))]
    return str(b.Reshape(b.ScatterElements(*flat, axis=0), b.Shape(data), allowzero=1))


def _stops(of: Layer, index: int) -> str:
    """Backwards, the largest numbers are beyond the start as any other; to ONNX they are the end of the way."""
    stops, steps = of.constant(index), of.constant(index + 1)
    if steps is not None and min(steps, default=1) > 0:
        return of.vector(index)
    if steps is not None and stops is not None:
        held = [min(stop, LARGE) if step < 0 else stop for stop, step in zip(stops, steps, strict=True)]
        return str(of.build.constant(held, T.INT64))
    backward = of.build.Less(of.vector(index + 1), 0)
    wide = of.vector(index)
    return str(of.build.Where(backward, of.build.Min(wide, of.build.constant(LARGE, T.INT64)), wide))


@layer("StridedSlice")
def strided_slice(of: Layer) -> Made:
    """As in numpy: an ellipsis, new axes and axes that vanish stand for themselves in five masks."""
    count = of.length(1)
    begin, end = of.constant(1), of.constant(2)
    steps = sizes.elements(of, 3, count) if of.has(3) else [1] * count
    masks = {
        name: [*of.ints(f"{name}_mask", []), *[0] * count][:count]
        for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
    }
    if sum(masks["ellipsis"]) > 1 or len(steps) != count:
        raise Unmapped(f"{sum(masks['ellipsis'])} ellipses and {len(steps)} of {count} strides")
    axis, fresh, shrunk = 0, 0, list[int]()
    cuts: list[tuple[int, str, str, Size]] = []  # axis of the data, begin, end, step
    new_axes: list[int] = []
    for place in range(count):
        if masks["ellipsis"][place]:
            behind = [p for p in range(place + 1, count) if not masks["new_axis"][p]]
            skipped = of.rank() - len(behind) - axis
            axis, fresh = axis + skipped, fresh + skipped
            continue
        if masks["new_axis"][place]:
            new_axes.append(fresh)
            fresh += 1
            continue
        shrinks, step = bool(masks["shrink_axis"][place]), steps[place]
        if shrinks and step != 1:
            raise Unmapped(
                f"a stride of {step if isinstance(step, int) else 'any number'} at one place; 1 is expressed"
            )
        if step == 0:
            raise Unmapped("a stride of 0")
        first = _slice_end(of, 1, place, begin, masks["begin"], (0, END), step)
        if shrinks:
            _check_place(of, axis, begin, place, masks["begin"])
            last, step = _behind(of, first, begin, place, masks["begin"]), 1
            shrunk.append(axis)
        else:
            last = _slice_end(of, 2, place, end, masks["end"], (END, START), step)
            fresh += 1
        cuts.append((axis, first, last, step))
        axis += 1
    value = of.input(0)
    if cuts:
        axes, *bounds, strides = zip(*cuts, strict=True)
        value = of.build.Slice(
            value, *(_together(of, names) for names in bounds), list(axes), sizes.vector(of, list(strides))
        )
    if shrunk:
        value = of.build.Squeeze(value, shrunk)
    if new_axes:
        value = of.build.Unsqueeze(value, new_axes)
    return str(value)


def _together(of: Layer, names: Sequence[str]) -> str:
    """Vectors of one number each as one vector."""
    held = [of.build.scope.ints(name) for name in names]
    if None not in held:
        return str(of.build.constant([value for values in held for value in values or ()], T.INT64))
    return str(of.build.Concat(*names, axis=0))


def _slice_end(
    of: Layer, index: int, place: int, held: list[int] | None, mask: list[int], defaults: tuple[int, int], step: Size
) -> str:
    """One number of `begin` or `end` as a vector; where its mask says that it does not count, where the way ends."""
    forward, backward = defaults
    if mask[place]:
        if isinstance(step, int):
            return str(of.build.constant([forward if step > 0 else backward], T.INT64))
        ends = (of.build.constant([end], T.INT64) for end in (backward, forward))
        return str(of.build.Where(of.build.Less(step, [0]), *ends))
    if held is not None and isinstance(step, int):
        return str(of.build.constant([min(held[place], LARGE) if step < 0 else held[place]], T.INT64))
    number = str(of.build.Slice(of.vector(index), [place], [place + 1]))
    if index == 1 or (isinstance(step, int) and step > 0):
        return number
    near = of.build.Min(number, of.build.constant([LARGE], T.INT64))
    return near if isinstance(step, int) else str(of.build.Where(of.build.Less(step, [0]), near, number))


def _check_place(of: Layer, axis: int, begin: list[int] | None, place: int, mask: list[int]) -> None:
    """What is known to lie outside of its axis is no element, and OpenVINO refuses it."""
    size = (of.dims() or [-1] * (axis + 1))[axis]
    index = 0 if mask[place] else None if begin is None else begin[place]
    if size >= 0 and index is not None and not -size <= index < size:
        raise Unmapped(f"index {index} is out of range for an axis of {size}")


def _behind(of: Layer, first: str, begin: list[int] | None, place: int, mask: list[int]) -> str:
    """The end of one element: behind -1 comes no 0."""
    if mask[place]:
        return str(of.build.constant([1], T.INT64))
    if begin is not None:
        return str(of.build.constant([begin[place] + 1 or END], T.INT64))
    after = of.build.Add(first, [1])
    return str(of.build.Where(of.build.Equal(after, [0]), of.build.constant([END], T.INT64), after))


@layer("Range")
def range_(of: Layer) -> Made:
    """Start, stop and step are brought to the type of the result, which loses nothing."""
    to = of.element_type("output_type") if of.version >= 4 else of.elem_type()
    elem_types = {of.elem_type(index) for index in range(3)}
    if to in SIGNED and not elem_types <= SIGNED:
        raise Unmapped("float bounds for an integer result", supported="bounds of the type of the result")
    scalars = [of.build.Squeeze(of.input(index)) if of.dims(index) else of.input(index) for index in range(3)]
    return str(of.build.Range(*(of.cast(scalar, to) for scalar in scalars)))


@layer("TopK")
def top_k(of: Layer) -> Made:
    """Sorted by value, or by index."""
    mode, sort = of.choice("mode", ("max", "min")), of.choice("sort", ("value", "index", "none"))
    axis, to = of.integer("axis"), of.element_type("index_element_type", "i32")
    most = {"axis": axis, "largest": int(mode == "max"), "sorted": 1}
    values, places = of.build.emit("TopK", [of.input(0), of.vector(1)], most, outputs=2)
    if sort == "index":
        order = {"axis": axis, "largest": 0, "sorted": 1}
        places, at = of.build.emit("TopK", [places, of.vector(1)], order, outputs=2)
        values = of.build.GatherElements(values, at, axis=axis)
    return [values, of.cast(places, to)]


@layer("NonZero")
def non_zero(of: Layer) -> Made:
    return of.cast(of.build.NonZero(of.input(0)), of.element_type("output_type", "i64"))


@layer("OneHot")
def one_hot(of: Layer) -> Made:
    """A negative index is no class; ONNX counts it from the end."""
    normal = of.choice("negative_indices_mode", ("ignore_negative", "normalize"), "ignore_negative") == "normalize"
    places, depth = of.int64(0), of.build.Reshape(of.int64(1), of.build.constant([], T.INT64))
    held = of.constant(0)
    if not normal and (held is None or min(held, default=0) < 0):
        places = of.build.Where(of.build.Less(places, 0), depth, places)
    values = of.build.Concat(*(of.build.Reshape(of.input(index), [1]) for index in (3, 2)), axis=0)
    if of.dims(0) != []:
        return str(of.build.OneHot(places, depth, values, axis=of.integer("axis")))
    of.normal(of.integer("axis"), 1)
    made = of.build.OneHot(of.build.Reshape(places, [1]), depth, values, axis=-1)
    return str(of.build.Squeeze(made, [0]))


@layer("Eye")
def eye(of: Layer) -> Made:
    """One matrix, or a batch of equal ones."""
    b, to = of.build, of.element_type("output_type")
    if (shift := of.constant(2)) is None:
        across, down = (b.Range(0, b.Squeeze(of.vector(k), [0]), 1) for k in (1, 0))
        made = of.cast(b.Equal(b.Sub(across, b.Unsqueeze(down, [1])), of.vector(2)), to)
    else:
        zeros = b.ConstantOfShape(b.Concat(of.vector(0), of.vector(1), axis=0))
        made = of.cast(b.EyeLike(zeros, k=shift[0], dtype=T.INT64 if to not in (T.FLOAT,) else to), to)
    if not of.has(3) or of.constant(3) == []:
        return made
    return str(b.Expand(made, b.Concat(of.vector(3), b.Shape(made), axis=0)))


@layer("Unique")
def unique(of: Layer) -> Made:
    """Values, where each comes first, where each element went, and how many there are."""
    axis = of.require_constant(1)[0] if of.has(1) else None
    order = {"sorted": int(of.flag("sorted", True)), "axis": axis}
    values, *numbers = of.build.emit("Unique", [of.input(0)], order, outputs=4)
    place, count = of.element_type("index_element_type", "i64"), of.element_type("count_element_type", "i64")
    return [values, *(of.cast(name, to) for name, to in zip(numbers, (place, place, count), strict=True))]


@layer("RandomUniform")
def random_uniform(of: Layer) -> Made:
    """low + (high - low) * what is drawn from 0 to 1; integers are rounded down."""
    b, to = of.build, of.element_type("output_type")
    wide = T.FLOAT if to in (T.FLOAT, T.FLOAT16, T.BFLOAT16) else T.DOUBLE
    low, high = (of.cast(b.Reshape(of.input(k), b.constant([], T.INT64)), wide) for k in (1, 2))
    zeros = b.ConstantOfShape(of.vector(0))
    drawn = b.RandomUniformLike(zeros, dtype=wide, low=0.0, high=1.0)
    found = b.Add(low, b.Mul(drawn, b.Sub(high, low)))
    of.close("draws other random numbers from the same distribution")
    return of.cast(found if to == wide or to in FLOATS else b.Floor(found), to)


@layer("Multinomial")
def multinomial(of: Layer) -> Made:
    """The largest of logarithms of probabilities with Gumbel's noise, for each draw anew; the first in their order
    where nothing is put back."""
    b, to = of.build, of.element_type("convert_type")
    logarithms = of.cast(of.input(0), T.FLOAT)
    logarithms = logarithms if of.flag("log_probs") else b.Log(logarithms)
    again, count = of.flag("with_replacement"), of.vector(1)
    if again:
        logarithms = b.Unsqueeze(logarithms, [1])
        logarithms = b.Expand(logarithms, b.Concat([1], count, [1], axis=0))
    drawn = b.RandomUniformLike(logarithms, dtype=T.FLOAT, low=1e-30, high=1.0)
    noisy = b.Sub(logarithms, b.Log(b.Neg(b.Log(drawn))))
    of.close("draws other random numbers from the same distribution")
    if again:
        return of.cast(b.ArgMax(noisy, axis=2, keepdims=0), to)
    _, places = b.emit("TopK", [noisy, count], {"axis": 1}, outputs=2)
    return of.cast(places, to)


@layer("Bucketize")
def bucketize(of: Layer) -> Made:
    """How many bounds are below a number, or at most as large where a bucket is open to the right."""
    return _count(of, of.input(1), of.input(0), of.rank(), strictly=of.flag("with_right_bound", True))


@layer("SearchSorted")
def search(of: Layer) -> Made:
    """The same for sequences of their own; `right_mode` counts what is equal."""
    rows = of.input(0) if of.rank() == 1 else str(of.build.Unsqueeze(of.input(0), [-2]))
    return _count(of, rows, of.input(1), of.rank(1), strictly=not of.flag("right_mode", False))


def _count(of: Layer, bounds: str, values: str, rank: int, *, strictly: bool) -> str:
    if of.elem_type(0) != of.elem_type(1):
        raise Unmapped("bounds of two types", supported="one type")
    b, column = of.build, of.build.Unsqueeze(values, [-1])
    below = b.Cast(b.emit("Less" if strictly else "LessOrEqual", [bounds, column]), to=T.INT64)
    return str(b.Cast(b.ReduceSum(below, [rank], keepdims=0), to=of.element_type("output_type", "i64")))

"""A Resize whose elements are gathered one by one, or summed up from what is gathered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.sampling import places, places_at_runtime
from opshift.passes.operators.shared.sampling.places import Axis, Sampling, Undecided
from opshift.passes.operators.shared.sampling.places_at_runtime import FLOOR_WHERE_IT_GROWS, RuntimeAxis, Value
from opshift.passes.rewrite.builder import Builder, Operand
from opshift.passes.rewrite.node import Node

T = TensorProto

X, ROI, SCALES, SIZES = range(4)

MOST_TAPS = 16
"""More elements than these are summed up as rows of one tensor."""


ALIGNED = "corners are aligned by size * scale before it is cut, as in ONNX's tests; some runtimes cut it first"


class Unknown(Exception):
    """Something that only the running model knows."""


def sampling_of(node: Node) -> Sampling:
    held = node.attributes
    how = Sampling(
        held.get("mode", "nearest"),
        held.get("coordinate_transformation_mode", "half_pixel"),
        held.get("nearest_mode", "round_prefer_floor"),
        held.get("cubic_coeff_a", -0.75),
        bool(held.get("exclude_outside", 0)),
        bool(held.get("antialias", 0)),
    )
    for name, value, known in (
        ("mode", how.mode, places.MODES),
        ("coordinate_transformation_mode", how.coordinates, places.COORDINATES),
        ("nearest_mode", how.nearest_mode, places.NEAREST),
    ):
        if value not in known:
            raise CannotConvert(node, f"{name}={value}", supported=f"{', '.join(known)}")
    return how


def has_sizes(node: Node) -> bool:
    return bool(node.input(SIZES))


def axes_of(node: Node, rank: int) -> list[int]:
    axes = node.attributes.get("axes") or list(range(rank))
    if any(not -rank <= axis < rank for axis in axes):
        raise CannotConvert(node, f"axes={axes} are out of range for rank {rank}")
    return [axis % rank for axis in axes]


def check_lengths(node: Node, axes: list[int]) -> None:
    """Refuse what is no vector of one number for each axis, or of two, as far as that is known."""
    crops = node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    told = [(ROI, "roi", 2 * len(axes))] if crops else []
    told.append((SIZES, "sizes", len(axes)) if has_sizes(node) else (SCALES, "scales", len(axes)))
    for index, name, length in told:
        dims = node.scope.shape(node.input(index)) if node.input(index) else [0]
        if dims is not None and (len(dims) != 1 or (isinstance(dims[0], int) and dims[0] != length)):
            shown = ", ".join("?" if dim is None else str(dim) for dim in dims)
            raise CannotConvert(node, f"{name} has shape [{shown}]", supported=f"a vector of {length}")


def axes_to_resize(node: Node, *, all_axes: bool = False) -> list[Axis]:
    """List the axes along which elements change, in size or in value."""
    rank = node.rank()
    axes, dims = axes_of(node, rank), node.scope.shape(node.input(X)) or []
    crops = node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    check_lengths(node, axes)
    roi = _constant(node, ROI, "roi").tolist() if crops else [0.0] * len(axes) + [1.0] * len(axes)
    if has_sizes(node):
        results = _results(node, axes, rank)
        scales: list[Any] = _common_scale(node, axes, results) or [None] * len(axes)
    else:
        results, scales = [None] * len(axes), _constant(node, SCALES, "scales").tolist()
    found = []
    for k, axis in enumerate(axes):
        size, result, scale, start, end = dims[axis], results[k], scales[k], roi[k], roi[k + len(axes)]
        same = scale == 1.0 or (scale is None and size is not None and size == result)
        if same and (start, end) == (0.0, 1.0) and not all_axes:
            continue
        if not isinstance(size, int) or not (isinstance(result, int) or (result is None and scale is not None)):
            raise Unknown(f"the size of axis {axis}")
        if not size and not (result or all_axes):
            continue  # no element stays none
        if not size:
            raise CannotConvert(node, f"axis {axis} is empty and would have to grow")
        asked = scale is None
        if scale is None and isinstance(result, int):
            scale = result / size
        if result is None:
            result = places.output_size(size, scale * (end - start))
        elif any(other is not None for other in scales):  # keeps the ratio
            result = places.size_by_ratio(size, scale)
        found.append(Axis(axis, size, result, scale, start, end, asked))
    return found


def _constant(node: Node, index: int, what: str) -> Any:
    held = node.scope.array(node.input(index))
    if held is None:
        raise Unknown(what)
    return held


def _results(node: Node, axes: list[int], rank: int) -> list[Any]:
    """The sizes asked for, constant or inferred; of an axis that keeps its size, perhaps a symbol."""
    held = node.scope.ints(node.input(SIZES))
    if held is not None:
        return list(held)
    dims = node.scope.shape_in_source(node.outputs[0])
    if dims is None or len(dims) != rank or node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unknown("sizes")
    return [dims[axis] for axis in axes]


def _common_scale(node: Node, axes: list[int], results: list[Any]) -> list[float] | None:
    policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return None
    dims = node.scope.shape(node.input(X)) or []
    ratios = []
    for axis, result in zip(axes, results, strict=True):
        size = dims[axis]
        if not isinstance(size, int) or not size:
            raise Unknown(f"the size of axis {axis}")
        ratios.append(result / size)
    return [min(ratios) if policy == "not_larger" else max(ratios)] * len(axes)


def note_aligned(node: Node, axes: list[Axis], how: Sampling) -> None:
    """Say it where runtimes differ on what the last element is."""
    if how.coordinates == "align_corners" and not all(along.asked or along.whole for along in axes):
        node.close(ALIGNED)


def samples_by_gather(node: Node) -> str:
    """Every element of the result is gathered, or summed up from what is gathered."""
    how, x = sampling_of(node), node.input(X)
    if how.mode == "nearest" and how.exclude_outside:
        raise CannotConvert(node, "exclude_outside=1 with mode=nearest", supported="other modes")
    try:
        axes = axes_to_resize(node)
        note_aligned(node, axes, how)
        x = sample_along(node, x, axes, how)
        if how.coordinates == "tf_crop_and_resize":
            x = _extrapolate(node, x, axes)
    except Unknown:
        return sample_at_runtime(node, how)
    except Undecided as why:
        raise CannotConvert(node, f"{why}", supported="sizes that do not depend on rounding") from None
    return str(node.build.Identity(x)) if x == node.input(X) else x


def sample_along(node: Node, x: str, axes: list[Axis], how: Sampling) -> str:
    if not all(along.result for along in axes):  # no element is left, whichever were chosen along the other axes
        for along in axes:
            x = node.build.Gather(x, [0] * along.result, axis=along.axis)
        return x
    if how.mode != "nearest":
        return _weight(node, x, axes, how) if axes else x
    for along in axes:
        x = node.build.Gather(x, places.nearest(along, how), axis=along.axis)
    return x


def _weight(node: Node, x: str, axes: list[Axis], how: Sampling) -> str:
    rank, wide = node.rank(), _wide(node, how)
    node.close(f"{how.mode} interpolation is spelled out as weighted sums")
    value = _cast(node, x, wide)
    for along in axes:
        indices, weights = places.taps(along, how, width_of(wide))
        if indices.shape[1] > MOST_TAPS:
            weights = weights.reshape(*weights.shape, *_column(along.axis, rank)[1:])
            rows = node.build.constant(indices, T.INT64), node.build.constant(weights, wide)
            value = _reduce(node.build, value, *rows, along.axis)
            continue
        parts = [
            (indices[:, k].tolist(), node.build.constant(weights[:, k].reshape(_column(along.axis, rank)), wide))
            for k in range(indices.shape[1])
        ]
        value = _sum(node.build, value, parts, along.axis)
    return _cast_back(node, value, wide)


def _wide(node: Node, how: Sampling) -> int:
    """The type to compute a weighted sum in."""
    elem_type = node.elem_type()
    if elem_type not in (T.FLOAT16, T.FLOAT, T.DOUBLE):
        raise CannotConvert(
            node,
            f"the data are integers and mode is {how.mode}, and ONNX does not say how the result is rounded",
            supported="floats",
        )
    if how.coordinates == "tf_half_pixel_for_nn":
        raise CannotConvert(node, f"tf_half_pixel_for_nn with mode={how.mode}", supported="mode=nearest")
    return T.FLOAT if elem_type == T.FLOAT16 else elem_type


def width_of(elem_type: int) -> Any:
    """The width to compute coordinates in for weights of some type."""
    return np.float64 if elem_type == T.DOUBLE else np.float32


def _cast(node: Node, x: str, wide: int) -> str:
    return x if wide == node.elem_type() else str(node.build.Cast(x, to=wide))


def _cast_back(node: Node, x: str, wide: int) -> str:
    return x if wide == node.elem_type() else str(node.build.Cast(x, to=node.elem_type()))


def _column(axis: int, rank: int) -> list[int]:
    """The shape of a vector that goes along an axis of data of some rank."""
    return [-1] + [1] * (rank - 1 - axis)


def _sum(build: Builder, x: str, parts: Sequence[tuple[Operand, str]], axis: int) -> str:
    total = ""
    for indices, weights in parts:
        part = build.Mul(build.Gather(x, indices, axis=axis), weights)
        total = build.Add(total, part) if total else part
    return total


def _extrapolate(node: Node, x: str, axes: list[Axis]) -> str:
    """What lies beyond the data gets a value of its own."""
    rank = node.rank()
    beyond = np.zeros([1] * rank, dtype=bool)
    for along in axes:
        if (mask := places.outside(along)).any():
            beyond = beyond | mask.reshape(_column(along.axis, rank))
    if not beyond.any():
        return x
    return _fill(node, node.build.constant(beyond, T.BOOL), x)


def _fill(node: Node, where: str, x: str) -> str:
    fill = node.build.constant(node.attributes.get("extrapolation_value", 0.0), node.elem_type())
    return str(node.build.Where(where, fill, x))


# --- the same for what only the running model knows ---------------------------------------------------------


def sample_at_runtime(node: Node, how: Sampling) -> str:
    """The same, of which elements each is a sum being computed at run time."""
    build, rank, x, beyond = node.build, node.rank(), node.input(X), ""
    wide = 0 if how.mode == "nearest" else _wide(node, how)
    value = _cast(node, x, wide) if wide else x
    width = "float64" if wide == T.DOUBLE else "float32 as runtimes do"
    node.close(f"computes sample positions at run time, in {width}")
    if how.coordinates == "align_corners" and not has_sizes(node):
        node.close(ALIGNED)
    for along in _axes_at_runtime(node, wide or T.FLOAT):
        position = places_at_runtime.positions(along, how.coordinates)
        column = _column(along.axis, rank)
        if how.coordinates == "tf_crop_and_resize":
            mask = build.Reshape(places_at_runtime.beyond(position, along), column)
            beyond = build.Or(beyond, mask) if beyond else mask
        if not wide:
            value = build.Gather(value, places_at_runtime.nearest(position, along, how), axis=along.axis)
            continue
        if how.antialias:
            indices, weights = places_at_runtime.smooth(position, along, how)
            aside = list(range(2, rank + 1 - along.axis))
            rows = build.Unsqueeze(weights.name, aside) if aside else weights.name
            value = _reduce(build, value, indices, rows, along.axis)
            continue
        parts = [
            (indices, build.Reshape(weights.name, column))
            for indices, weights in places_at_runtime.taps(position, along, how)
        ]
        value = _sum(build, value, parts, along.axis)
    value = _cast_back(node, value, wide) if wide else value
    return _fill(node, beyond, value) if beyond else value


def _reduce(build: Builder, x: str, indices: str, weights: str, axis: int) -> str:
    """x along an axis as sums over rows of as many elements as there are taps."""
    return str(build.ReduceSum(build.Mul(build.Gather(x, indices, axis=axis), weights), [axis + 1], keepdims=0))


def _axes_at_runtime(node: Node, elem_type: int) -> list[RuntimeAxis]:
    build, rank = node.build, node.rank()
    axes, crops = axes_of(node, rank), node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    check_lengths(node, axes)
    kept = _axes_of_same_size(node)
    shape = build.Cast(build.Shape(node.input(X)), to=elem_type)
    roi = build.Cast(node.input(ROI), to=elem_type) if crops else ""
    given = node.input(SIZES if has_sizes(node) else SCALES)
    if has_sizes(node) or elem_type != T.FLOAT:
        given = build.Cast(given, to=elem_type)
    common = _common_scale_at_runtime(node, build.Gather(shape, axes), given, elem_type)
    found = []
    for k, axis in enumerate(axes):
        if axis in kept:
            continue
        size, part = (Value(build, build.Gather(vector, [at]), elem_type) for vector, at in ((shape, axis), (given, k)))
        start, end = (Value(build, build.Gather(roi, [k + at]), elem_type) if crops else None for at in (0, len(axes)))
        if common:
            result, scale = (size * common + 0.5).apply("Floor"), common
        elif has_sizes(node):
            result, scale = part, part / size
        else:
            length = (size * (end - start) if start and end else size) * part
            found.append(RuntimeAxis(axis, size, length.apply("Floor"), part, start, end, length))
            continue
        found.append(RuntimeAxis(axis, size, result, scale, start, end))
    return found


def _axes_of_same_size(node: Node) -> set[int]:
    """The axes that are known to keep their size."""
    rank = node.rank()
    if node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return set()
    if not has_sizes(node):
        held = node.scope.array(node.input(SCALES))
        return set() if held is None else {a for a, s in zip(axes_of(node, rank), held, strict=True) if s == 1.0}
    before, after = node.scope.shape(node.input(X)), node.scope.shape_in_source(node.outputs[0])
    if before is None or after is None or len(after) != rank:
        return set()
    return {k for k in range(rank) if before[k] is not None and before[k] == after[k]}


def _common_scale_at_runtime(node: Node, sizes: str, results: str, elem_type: int) -> Value | None:
    policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch" or not has_sizes(node):
        return None
    ratios = node.build.Div(results, sizes)
    return Value(
        node.build, node.build.emit("ReduceMin" if policy == "not_larger" else "ReduceMax", [ratios]), elem_type
    )


def sample_by_scales(node: Node) -> str:
    """Elements placed from the first corner, by scales known only at run time."""
    node.inputs = [node.input(0), "", node.input(1)]  # as Resize has had them from 11 on
    how = Sampling(node.attributes.get("mode", "nearest"), "asymmetric", FLOOR_WHERE_IT_GROWS)
    if how.mode not in ("nearest", "linear"):
        raise CannotConvert(node, f"mode={how.mode}", supported="nearest, linear")
    return sample_at_runtime(node, how)

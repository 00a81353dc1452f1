"""Resize and Upsample: where the elements of the result lie on the data was written down little by little.

What a version cannot say is sampled element by element where sizes are known: nearest by Gather, the other
modes by weighted sums of Gathers.
"""

from __future__ import annotations

from typing import Any

from opshift.passes import constants
from opshift.passes.build import Builder
from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, Replacement, changed
from opshift.passes.steps import _sampling
from opshift.passes.steps._sampling import Axis, Sampling, Undecided
from opshift.passes.view import Node

T = TensorProto

X, ROI, SCALES, SIZES = range(4)
SINCE_11 = (
    "coordinate_transformation_mode",
    "nearest_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "extrapolation_value",
)


# --- Upsample -----------------------------------------------------------------------------------------------


def sides_to_scales(node: Node) -> None:
    """Height and width had a scale each, which are two of four now; the mode bilinear is called linear."""
    height, width = (float(node.attributes.pop(name)) for name in ("height_scale", "width_scale"))
    node.attributes["scales"] = [1.0, 1.0, height, width]
    if node.attributes.get("mode", "nearest") == "bilinear":
        node.attributes["mode"] = "linear"


def scales_to_sides(node: Node) -> None:
    """Only height and width could be scaled, of images in a batch; the mode linear was called bilinear."""
    scales = node.attributes.pop("scales")
    if len(scales) != 4 or scales[:2] != [1.0, 1.0]:
        raise CannotConvert(node, f"scales={scales}; two of four axes, height and width, could be expressed")
    node.attributes["height_scale"], node.attributes["width_scale"] = scales[2:]
    if node.attributes.get("mode", "nearest") == "linear":
        node.attributes["mode"] = "bilinear"


def scales_to_input(node: Node) -> None:
    """scales was an attribute and becomes an input."""
    node.set_input(1, node.build.constant(node.attributes.pop("scales"), T.FLOAT))


def scales_to_attribute(node: Node) -> None:
    """scales becomes an attribute."""
    scales = node.scope.array(node.input(1))
    if scales is None:
        raise CannotConvert(node, "scales are known only at run time; constant scales could be expressed")
    node.inputs = node.inputs[:1]
    node.attributes["scales"] = [float(scale) for scale in scales]


def upsample_to_resize(node: Node) -> None:
    """Upsample was replaced by Resize, which does the same."""
    node.op_type = "Resize"


def resize_to_upsample(node: Node) -> Replacement:
    """Resize was called Upsample, which only grows: where an axis shrinks, every element is sampled."""
    held = node.scope.array(node.input(1))
    if held is None:
        raise CannotConvert(node, "scales are known only at run time; constant scales could be expressed")
    if (held >= 1).all():
        node.op_type = "Upsample"
        return None
    node.attributes["coordinate_transformation_mode"] = "asymmetric"
    node.inputs = [node.input(X), "", node.input(1)]
    if _sampling_of(node).mode != "nearest":
        return _sampled(node)
    x = node.input(X)
    try:
        for along in _resized(node):
            how = Sampling("nearest", "asymmetric", "floor" if along.scale >= 1 else "ceil")
            x = node.build.Gather(x, _sampling.nearest(along, how), axis=along.axis)
    except Undecided as why:
        raise CannotConvert(node, f"{why}; other sizes could be expressed") from None
    return x


# --- 11: coordinates ----------------------------------------------------------------------------------------


def old_coordinates(node: Node) -> Replacement:
    """Elements were placed from the first corner; the nearest was the one before, or after when shrinking."""
    build, scales = node.build, node.input(1)
    roi = build.constant([], T.FLOAT)
    how = {"coordinate_transformation_mode": "asymmetric"}
    node.attributes.update(how)
    if node.attributes.get("mode", "nearest") != "nearest":
        node.inputs = [node.input(0), roi, scales]
        return None
    held = node.scope.array(scales)
    if held is not None and ((held >= 1).all() or (held <= 1).all()):
        node.inputs = [node.input(0), roi, scales]
        node.attributes["nearest_mode"] = "floor" if (held >= 1).all() else "ceil"
        return None
    one = build.constant([1.0], T.FLOAT)
    grown = build.again(node.proto, [node.input(0), roi, build.Max(scales, one)], nearest_mode="floor")
    return str(build.again(node.proto, [grown, roi, build.Min(scales, one)], nearest_mode="ceil"))


def from_the_first_corner(node: Node) -> Replacement:
    """Only elements placed from the first corner could be expressed; any other placement is sampled."""
    how = _sampling_of(node)
    scales = _scales_from_the_first_corner(node, how)
    if scales is None:
        return _sampled(node)
    node.inputs = [node.input(X), scales]
    for name in SINCE_11:
        node.attributes.pop(name, None)
    return None


def _scales_from_the_first_corner(node: Node, how: Sampling) -> str | None:
    """The scales of a Resize-10 that computes the same; None if there is none."""
    if how.mode == "cubic" or (how.mode == "linear" and how.coordinates != "asymmetric"):
        return None
    if not _has_sizes(node):
        held = node.scope.array(node.input(SCALES))
        if how.mode == "linear" or (held is not None and _takes_the_one_before_or_after(how, held)):
            return node.input(SCALES)
        return None
    try:
        axes = _resized(node)
        scales = [1.0] * node.rank()
        for along in axes:
            scales[along.axis] = _scale_to(along, how)
    except (CannotConvert, Undecided):
        return None
    return node.build.constant(scales, T.FLOAT)


def _takes_the_one_before_or_after(how: Sampling, scales: Any) -> bool:
    """With whole scales the same elements are repeated, whether corners or centres are what is counted."""
    rounded = how.nearest_mode in ("round_prefer_floor", "round_prefer_ceil")
    if how.coordinates == "asymmetric":
        growing, shrinking = how.nearest_mode == "floor", how.nearest_mode == "ceil"
        return all((scale >= 1 and growing) or (scale <= 1 and shrinking) or scale == 1 for scale in scales)
    centred = how.coordinates in ("half_pixel", "pytorch_half_pixel") and rounded
    return centred and all(scale >= 1 and scale == round(scale) for scale in scales)


def _scale_to(along: Axis, how: Sampling) -> float:
    """A scale that leads to the size asked for, from the same elements."""
    import numpy as np

    exact = np.float32(along.scale)
    for scale in (exact, np.nextafter(exact, np.float32(np.inf))):
        moved = Axis(along.axis, along.size, along.result, float(scale))
        if _sampling.output_size(along.size, float(scale)) != along.result:
            continue
        kind = "floor" if scale >= 1 else "ceil"
        if how.mode != "nearest" and scale == exact:
            return float(scale)
        there = Sampling("nearest", "asymmetric", kind)
        if how.mode == "nearest" and _sampling.nearest(moved, there) == _sampling.nearest(along, how):
            return float(scale)
    raise Undecided(f"no scale leads from {along.size} to {along.result} elements")


# --- 13: what may be left out -------------------------------------------------------------------------------


def leave_out_empty_inputs(node: Node) -> Replacement:
    """Beside sizes, empty scales are left out; tf_half_pixel_for_nn is gone."""
    if _has_sizes(node):
        node.set_input(SCALES, "")
    if node.attributes.get("coordinate_transformation_mode") != "tf_half_pixel_for_nn":
        return None
    how = _sampling_of(node)
    if how.mode == "nearest" and how.nearest_mode == "floor":  # floor(x + 0.5) is x rounded, halves up
        node.attributes["coordinate_transformation_mode"] = "half_pixel"
        node.attributes["nearest_mode"] = "round_prefer_ceil"
        return None
    return _sampled(node)


def give_empty_inputs(node: Node) -> None:
    """roi and scales had to be given: they are empty where they were left out."""
    for index in (ROI, SCALES):
        if not node.input(index):
            node.set_input(index, node.build.constant([], T.FLOAT))


# --- 18: axes, antialias and the aspect ratio ---------------------------------------------------------------


def stretch_all_axes(node: Node) -> Replacement:
    """All axes had to be given and were stretched without regard to their ratio or to what lies between."""
    how, policy = _sampling_of(node), node.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        raise CannotConvert(node, f"keep_aspect_ratio_policy={policy}; stretch could be expressed")
    if how.antialias and not _grows(node):
        return _sampled(node)
    if policy != "stretch" and _has_sizes(node):
        if not _keep_ratio(node):
            return _sampled(node)
    elif node.attributes.get("axes"):
        _give_all_axes(node)
    if node.attributes.pop("antialias", 0) and how.mode != "nearest":
        node.close(
            "nothing is smoothed where no axis shrinks, but the arithmetic of smoothing may round differently"
        )
    node.attributes.pop("keep_aspect_ratio_policy", None)
    node.attributes.pop("axes", None)
    return None


def _grows(node: Node) -> bool:
    if node.attributes.get("mode", "nearest") == "nearest":
        return True
    held = None if _has_sizes(node) else node.scope.array(node.input(SCALES))
    if held is not None:
        return bool((held >= 1).all())
    try:
        return all(along.scale >= 1 for along in _resized(node))
    except (CannotConvert, Undecided):
        return False


def _keep_ratio(node: Node) -> bool:
    """Replace sizes by those that keep the ratio, or by its scale; False if neither leads there."""
    axes, rank = _resized(node, all_axes=True), node.rank()
    if all(along.whole for along in axes):
        sizes = _sizes(node, axes)
        node.inputs = [node.input(X), _full_roi(node), "", sizes]
        return True
    try:
        if any(_sampling.output_size(along.size, along.scale) != along.result for along in axes):
            return False
    except Undecided:
        return False
    scales = [1.0] * rank
    for along in axes:
        scales[along.axis] = along.scale
    node.inputs = [node.input(X), _full_roi(node), node.build.constant(scales, T.FLOAT)]
    return True


def _sizes(node: Node, axes: list[Axis]) -> str:
    results = node.build.constant(constants.int64s([along.result for along in axes]))
    return _scatter(node, node.build.Shape(node.input(X)), [along.axis for along in axes], results)


def _give_all_axes(node: Node) -> None:
    rank = node.rank()
    axes = _axes(node, rank)
    if _has_sizes(node):
        filled = _scatter(node, node.build.Shape(node.input(X)), axes, node.input(SIZES))
        node.inputs = [node.input(X), _full_roi(node), "", filled]
    else:
        ones = node.build.constant([1.0] * rank, T.FLOAT)
        filled = _scatter(node, ones, axes, node.input(SCALES))
        node.inputs = [node.input(X), _full_roi(node), filled]


def _full_roi(node: Node) -> str:
    roi, rank = node.input(ROI), node.rank()
    axes = _axes(node, rank)
    if not roi or node.attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return ""
    whole = node.build.constant([0.0] * rank + [1.0] * rank, node.elem_type(ROI))
    return _scatter(node, whole, axes + [axis + rank for axis in axes], roi)


def _scatter(node: Node, into: str, places: list[int], values: str) -> str:
    """`into` with `values` at `places`; computed now where both are constant."""
    held, given = node.scope.array(into), node.scope.array(values)
    if held is None or given is None:
        return str(node.build.ScatterElements(into, places, values))
    filled = held.copy()
    filled[places] = given
    return node.build.constant(filled, _elem_type(filled))


def _elem_type(of: Any) -> int:
    import onnx.helper

    return int(onnx.helper.np_dtype_to_tensor_dtype(of.dtype))


# --- 19: half_pixel_symmetric -------------------------------------------------------------------------------


def symmetric_where_nothing_is_cut(node: Node) -> Replacement:
    """half_pixel_symmetric did not exist; it differs only where a size is cut to an integer."""
    if _sampling_of(node).coordinates != "half_pixel_symmetric":
        return None
    stretched = node.attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if not (_has_sizes(node) and stretched):
        axes = _resized(node)
        if not all(along.whole for along in axes):
            return _sampled(node)
    node.attributes["coordinate_transformation_mode"] = "half_pixel"
    return None


# --- sampling element by element ----------------------------------------------------------------------------


def _sampling_of(node: Node) -> Sampling:
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
        ("mode", how.mode, _sampling.MODES),
        ("coordinate_transformation_mode", how.coordinates, _sampling.COORDINATES),
        ("nearest_mode", how.nearest_mode, _sampling.NEAREST),
    ):
        if value not in known:
            raise CannotConvert(node, f"{name}={value}; {', '.join(known)} could be expressed")
    return how


def _has_sizes(node: Node) -> bool:
    return bool(node.input(SIZES))


def _axes(node: Node, rank: int) -> list[int]:
    axes = node.attributes.get("axes") or list(range(rank))
    if any(not -rank <= axis < rank for axis in axes):
        raise CannotConvert(node, f"axes={axes} lie outside rank {rank}")
    return [axis % rank for axis in axes]


def _resized(node: Node, *, all_axes: bool = False) -> list[Axis]:
    """The axes whose elements are not just repeated as they are."""
    import numpy as np

    rank = node.rank()
    axes, dims = _axes(node, rank), node.scope.shape(node.input(X)) or []
    crops = node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    roi = _constant(node, ROI, "roi").tolist() if crops else [0.0] * len(axes) + [1.0] * len(axes)
    if _has_sizes(node):
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
        if not isinstance(size, int) or not (result is None or isinstance(result, int)):
            raise CannotConvert(node, f"the size of axis {axis} is unknown; known sizes could be expressed")
        asked = scale is None
        if scale is None:
            scale = float(np.float32(result) / np.float32(size))
        if result is None:
            result = _sampling.output_size(size, scale * (end - start))
        elif any(other is not None for other in scales):  # keeps the ratio
            result = int(np.floor(scale * size + 0.5))
        if not size or not result:
            raise CannotConvert(node, f"axis {axis} is empty")
        found.append(Axis(axis, size, result, scale, start, end, asked))
    return found


def _constant(node: Node, index: int, what: str) -> Any:
    held = node.scope.array(node.input(index))
    if held is None:
        raise CannotConvert(node, f"{what} is known only at run time; a constant could be expressed")
    return held


def _results(node: Node, axes: list[int], rank: int) -> list[Any]:
    """The sizes asked for, constant or inferred; of an axis that keeps its size, perhaps a symbol."""
    held = node.scope.ints(node.input(SIZES))
    if held is not None:
        return list(held)
    dims = node.scope.shape(node.outputs[0])
    if (
        dims is None
        or len(dims) != rank
        or node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch"
    ):
        raise CannotConvert(node, "sizes are known only at run time; constant sizes could be expressed")
    return [dims[axis] for axis in axes]


def _common_scale(node: Node, axes: list[int], results: list[Any]) -> list[float] | None:
    policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return None
    import numpy as np

    dims = node.scope.shape(node.input(X)) or []
    ratios = []
    for axis, result in zip(axes, results, strict=True):
        size = dims[axis]
        if not isinstance(size, int) or not size:
            raise CannotConvert(node, f"the size of axis {axis} is unknown; known sizes could be expressed")
        ratios.append(np.float32(result) / np.float32(size))
    return [float(min(ratios) if policy == "not_larger" else max(ratios))] * len(axes)


def _sampled(node: Node) -> str:
    """Every element of the result is gathered, or summed up from what is gathered."""
    how, x, build = _sampling_of(node), node.input(X), node.build
    try:
        axes = _resized(node)
        if how.mode == "nearest":
            for along in axes:
                x = build.Gather(x, _sampling.nearest(along, how), axis=along.axis)
        elif axes:
            x = _weighted(node, x, axes, how)
        if how.coordinates == "tf_crop_and_resize":
            x = _extrapolated(node, x, axes)
    except Undecided as why:
        raise CannotConvert(node, f"{why}; other sizes could be expressed") from None
    return str(build.Identity(x)) if x == node.input(X) else x


def _weighted(node: Node, x: str, axes: list[Axis], how: Sampling) -> str:
    elem_type, rank, build = node.elem_type(), node.rank(), node.build
    if elem_type not in (T.FLOAT16, T.FLOAT, T.DOUBLE):
        raise CannotConvert(
            node, f"how {how.mode} rounds to integers is not written down; floats could be expressed"
        )
    if how.coordinates == "tf_half_pixel_for_nn":
        raise CannotConvert(
            node, f"tf_half_pixel_for_nn with mode={how.mode}; mode=nearest could be expressed"
        )
    node.close(f"{how.mode} interpolation is spelled out as weighted sums")
    wide = T.FLOAT if elem_type == T.FLOAT16 else elem_type
    value = x if wide == elem_type else build.Cast(x, to=wide)
    for along in axes:
        value = _weighted_along(build, value, along, how, wide, rank)
    return value if wide == elem_type else str(build.Cast(value, to=elem_type))


def _weighted_along(build: Builder, x: str, along: Axis, how: Sampling, elem_type: int, rank: int) -> str:
    total = ""
    for indices, weights in _sampling.taps(along, how):
        part = build.Gather(x, indices, axis=along.axis)
        column = weights.reshape([-1] + [1] * (rank - 1 - along.axis))
        part = build.Mul(part, build.constant(column, elem_type))
        total = build.Add(total, part) if total else part
    return total


def _extrapolated(node: Node, x: str, axes: list[Axis]) -> str:
    """What lies beyond the data gets a value of its own."""
    import numpy as np

    rank = node.rank()
    beyond = np.zeros([1] * rank, dtype=bool)
    for along in axes:
        shape = [1] * rank
        shape[along.axis] = along.result
        if (mask := _sampling.outside(along)).any():
            beyond = beyond | mask.reshape(shape)
    if not beyond.any():
        return x
    fill = node.build.constant(node.attributes.get("extrapolation_value", 0.0), node.elem_type())
    return str(node.build.Where(node.build.constant(beyond, T.BOOL), fill, x))


changed("Upsample", 7, Pair(up=sides_to_scales, down=scales_to_sides))
changed("Upsample", 9, Pair(up=scales_to_input, down=scales_to_attribute))
changed("Upsample", 10, Pair(up=upsample_to_resize))
changed("Resize", 10, Pair(down=resize_to_upsample))
changed("Resize", 11, Pair(up=old_coordinates, down=from_the_first_corner))
changed("Resize", 13, Pair(up=leave_out_empty_inputs, down=give_empty_inputs))
changed("Resize", 18, Pair(down=stretch_all_axes))
changed("Resize", 19, Pair(down=symmetric_where_nothing_is_cut))

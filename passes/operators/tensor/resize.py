"""Resize: where the elements of the result lie on the data was written down little by little.

What a version cannot say is sampled element by element where sizes are known: nearest by Gather, the other
modes by weighted sums of Gathers.
"""

from __future__ import annotations

from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.sampling import places
from opshift.passes.operators.shared.sampling.gathered import (
    ROI,
    SCALES,
    SIZES,
    Unknown,
    X,
    axes_of,
    axes_to_resize,
    check_lengths,
    has_sizes,
    sample_along,
    sample_by_scales,
    samples_by_gather,
    sampling_of,
)
from opshift.passes.operators.shared.sampling.matrices import multiplied_along_each_axis
from opshift.passes.operators.shared.sampling.places import Axis, Sampling, Undecided
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto

SINCE_11 = (
    "coordinate_transformation_mode",
    "nearest_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "extrapolation_value",
)


# --- 10: shrinking ------------------------------------------------------------------------------------------


@says("Replaced Resize by Upsample if all axes grow, else by Gather")
def resize_to_upsample(node: Node) -> Replacement:
    scales, mode = node.scope.array(node.input(1)), node.attributes.get("mode", "nearest")
    if scales is not None and (scales >= 1).all():
        node.op_type = "Upsample"
        return None
    dims = node.scope.shape(node.input(0)) or [None] * node.rank()
    if scales is None or any(s != 1 and not isinstance(n, int) for s, n in zip(scales, dims, strict=True)):
        return sample_by_scales(node)
    growing, shrinking = (Sampling(mode, "asymmetric", kind) for kind in ("floor", "ceil"))
    x = node.input(0)
    try:
        for along in _axes_to_scale(node, scales.tolist()):
            x = sample_along(node, x, [along], growing if along.scale >= 1 else shrinking)
    except Undecided as why:
        raise CannotConvert(node, f"{why}", supported="sizes that do not depend on rounding") from None
    return x


def _axes_to_scale(node: Node, scales: list[float]) -> list[Axis]:
    """The axes of a Resize-10 that are scaled."""
    sizes = [size if isinstance(size, int) else 0 for size in node.scope.shape(node.input(0)) or []]
    return [
        Axis(axis, size, places.output_size(size, scale), scale)
        for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True))
        if scale != 1.0 and size
    ]


# --- 11: coordinates ----------------------------------------------------------------------------------------


@says("Set the coordinate and rounding modes of Resize that opset 10 implied")
def old_coordinates(node: Node) -> Replacement:
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


@says("Dropped mode attributes of Resize that equal opset 10's; else replaced Resize by Gather")
def from_the_first_corner(node: Node) -> Replacement:
    how = sampling_of(node)
    scales = _scales_from_the_first_corner(node, how)
    if scales is None:
        return samples_by_gather(node)
    node.inputs = [node.input(X), scales]
    for name in SINCE_11:
        node.attributes.pop(name, None)
    return None


def _scales_from_the_first_corner(node: Node, how: Sampling) -> str | None:
    """The scales of a Resize-10 that computes the same; None if there is none."""
    if how.mode == "cubic" or (how.mode == "linear" and how.coordinates != "asymmetric"):
        return None
    if not has_sizes(node):
        held = node.scope.array(node.input(SCALES))
        if how.mode == "linear" or (held is not None and _takes_the_one_before_or_after(how, held)):
            return node.input(SCALES)
        return None
    try:
        axes = axes_to_resize(node)
        scales = [1.0] * node.rank()
        for along in axes:
            scales[along.axis] = _scale_to(along, how)
    except (Unknown, Undecided):
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

    if not along.result:
        raise Undecided("a scale that leaves no element")
    exact = np.float32(along.scale)
    for scale in (exact, np.nextafter(exact, np.float32(np.inf))):
        moved = Axis(along.axis, along.size, along.result, float(scale))
        if places.output_size(along.size, float(scale)) != along.result:
            continue
        kind = "floor" if scale >= 1 else "ceil"
        if how.mode != "nearest" and scale == exact:
            return float(scale)
        there = Sampling("nearest", "asymmetric", kind)
        if how.mode == "nearest" and places.nearest(moved, there) == places.nearest(along, how):
            return float(scale)
    raise Undecided(f"no scale leads from {along.size} to {along.result} elements")


# --- 13: what may be left out -------------------------------------------------------------------------------


@says("Removed empty scales of Resize beside sizes; replaced tf_half_pixel_for_nn")
def leave_out_empty_inputs(node: Node) -> Replacement:
    if has_sizes(node):
        node.set_input(SCALES, "")
    if node.attributes.get("coordinate_transformation_mode") != "tf_half_pixel_for_nn":
        return None
    how = sampling_of(node)
    if how.mode == "nearest" and how.nearest_mode == "floor":  # floor(x + 0.5) is x rounded, halves up
        node.attributes["coordinate_transformation_mode"] = "half_pixel"
        node.attributes["nearest_mode"] = "round_prefer_ceil"
        return None
    return samples_by_gather(node)


@says("Added empty inputs roi and scales to Resize, which older opsets require")
def give_empty_inputs(node: Node) -> None:
    for index in (ROI, SCALES):
        if not node.input(index):
            node.set_input(index, node.build.constant([], T.FLOAT))


# --- 18: axes, antialias and the aspect ratio ---------------------------------------------------------------


@says("Extended sizes, scales and roi of Resize to all axes; replaced antialias by interpolation weights")
def stretch_all_axes(node: Node) -> Replacement:
    how, policy = sampling_of(node), node.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        raise CannotConvert(node, f"keep_aspect_ratio_policy={policy}", supported="stretch")
    if how.antialias and not _grows(node):
        return samples_by_gather(node)
    if policy != "stretch" and has_sizes(node):
        if not _keep_ratio(node):
            return samples_by_gather(node)
    elif node.attributes.get("axes"):
        _give_all_axes(node)
    if node.attributes.pop("antialias", 0) and how.mode != "nearest":
        node.close("antialias changes nothing if no axis shrinks, but may round otherwise")
    node.attributes.pop("keep_aspect_ratio_policy", None)
    node.attributes.pop("axes", None)
    return None


def _grows(node: Node) -> bool:
    if node.attributes.get("mode", "nearest") == "nearest":
        return True
    held = None if has_sizes(node) else node.scope.array(node.input(SCALES))
    if held is not None:
        return bool((held >= 1).all())
    try:
        return all(along.scale >= 1 for along in axes_to_resize(node))
    except (Unknown, Undecided):
        return False


def _keep_ratio(node: Node) -> bool:
    """Replace sizes by those that keep the ratio, or by its scale; False if neither leads there."""
    try:
        axes, rank = axes_to_resize(node, all_axes=True), node.rank()
    except (Unknown, Undecided):
        return False
    if all(along.whole for along in axes):
        sizes = _sizes(node, axes)
        node.inputs = [node.input(X), _full_roi(node), "", sizes]
        return True
    try:
        if any(places.output_size(along.size, along.scale) != along.result for along in axes):
            return False
    except Undecided:
        return False
    scales = [1.0] * rank
    for along in axes:
        scales[along.axis] = along.scale
    node.inputs = [node.input(X), _full_roi(node), node.build.constant(scales, T.FLOAT)]
    return True


def _sizes(node: Node, axes: list[Axis]) -> str:
    results = node.build.constant(tensors.int64s([along.result for along in axes]))
    return _scatter(node, _shape(node), node.rank(), [along.axis for along in axes], results)


def _give_all_axes(node: Node) -> None:
    rank = node.rank()
    axes = axes_of(node, rank)
    check_lengths(node, axes)
    if has_sizes(node):
        filled = _scatter(node, _shape(node), rank, axes, node.input(SIZES))
        node.inputs = [node.input(X), _full_roi(node), "", filled]
    else:
        ones = node.build.constant([1.0] * rank, T.FLOAT)
        filled = _scatter(node, ones, rank, axes, node.input(SCALES))
        node.inputs = [node.input(X), _full_roi(node), filled]


def _full_roi(node: Node) -> str:
    roi, rank = node.input(ROI), node.rank()
    axes = axes_of(node, rank)
    if not roi or node.attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return ""
    whole = node.build.constant([0.0] * rank + [1.0] * rank, node.elem_type(ROI))
    return _scatter(node, whole, 2 * rank, axes + [axis + rank for axis in axes], roi)


def _shape(node: Node) -> str:
    dims = node.scope.shape(node.input(X)) or []
    if all(isinstance(dim, int) for dim in dims):
        return node.build.constant(dims, T.INT64)
    return str(node.build.Shape(node.input(X)))


def _scatter(node: Node, into: str, length: int, places: list[int], values: str) -> str:
    """`into` with `values` at `places`; computed now where both are constant."""
    held, given = node.scope.array(into), node.scope.array(values)
    if held is None or given is None:
        chosen = [places.index(k) if k in places else len(places) + k for k in range(length)]
        return str(node.build.Gather(node.build.Concat(values, into, axis=0), chosen))
    filled = held.copy()
    filled[places] = given
    return node.build.constant(filled, _elem_type(filled))


def _elem_type(of: Any) -> int:
    import onnx.helper

    return int(onnx.helper.np_dtype_to_tensor_dtype(of.dtype))


# --- 19: half_pixel_symmetric -------------------------------------------------------------------------------


@says("Replaced half_pixel_symmetric of Resize by half_pixel, or by Gather where they differ")
def symmetric_where_nothing_is_cut(node: Node) -> Replacement:
    if sampling_of(node).coordinates != "half_pixel_symmetric":
        return None
    stretched = node.attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if not (has_sizes(node) and stretched) and not _all_whole(node):
        return samples_by_gather(node)
    node.attributes["coordinate_transformation_mode"] = "half_pixel"
    return None


def _all_whole(node: Node) -> bool:
    try:
        return all(along.whole for along in axes_to_resize(node))
    except (Unknown, Undecided):
        return False


changed("Resize", 10, Pair(down=resize_to_upsample))
changed("Resize", 11, Pair(up=old_coordinates, down=from_the_first_corner))
changed("Resize", 13, Pair(up=leave_out_empty_inputs, down=give_empty_inputs))
changed("Resize", 18, Pair(down=stretch_all_axes))
changed("Resize", 19, Pair(down=symmetric_where_nothing_is_cut))
defined("Resize", multiplied_along_each_axis, opset=19)

"""When a call is one of those of which an engine computes otherwise than the text says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from onnx import GraphProto, TensorProto
from opshift.passes.model.traversal import bodies

from tests.node_calls import Call


def slices_of_strings(call: Call) -> bool:
    x, axis = call.given(0), call.attribute("axis", 0)
    return x is not None and np.asarray(x).dtype.kind in "OUS" and axis % np.ndim(x) < np.ndim(x) - 1


def below(opset: int) -> Callable[[Call], bool]:
    return lambda call: call.opset < opset


def always(_: Call) -> bool:
    return True


def never(_: Call) -> bool:
    """For what hangs on neighbours of a call: an excuse would excuse every model of that type."""
    return False


def nan(*indices: int) -> Callable[[Call], bool]:
    return lambda call: any(holds(call.given(index), np.isnan) for index in indices)


def other_types(call: Call) -> bool:
    """Whether the first two inputs are known to have types of their own."""
    a, b = call.given(0), call.given(1)
    return a is not None and b is not None and a.dtype != b.dtype


def quotients_beyond_32_bits(call: Call) -> bool:
    """Whether a number is known to be larger than what its scale makes a number of 32 bits of, zero point included."""
    x, scale = call.given(0), call.given(1)
    if x is None or scale is None or not scale.size:
        return False
    magnitudes = np.abs(x.astype(np.float64))
    with np.errstate(all="ignore"):
        return bool((magnitudes / np.abs(scale.astype(np.float64)).min() >= 2**31 - 2**16).any())


def whole(call: Call, index: int) -> bool:
    return not holds(call.given(index), lambda value: value != np.trunc(value))


def holds(value: Any, what: Callable[[Any], Any]) -> bool:
    floats = (
        isinstance(value, np.ndarray) and "float" in value.dtype.name
    )  # those of ml_dtypes have a kind of their own
    return floats and bool(what(value).any())


def left_out(index: int) -> Callable[[Call], bool]:
    return lambda call: index >= len(call.node.input) or not call.node.input[index]


def one_query_of_a_past(call: Call) -> bool:
    """Whether one query comes beside several new keys and older ones, of which it may see those up to its own."""
    q, k, past = (call.shape(at) for at in (0, 1, 4))
    new = past is not None and past[-2] > 0 and q is not None and q[-2] == 1 and k is not None and k[-2] > 1
    return bool(new and call.attribute("is_causal", 0))


def one_row_under_another_mask(call: Call) -> bool:
    masks = ("is_causal", "left_window_size", "right_window_size")
    return one_row_of_a_mask(call) and any(call.attribute(name) is not None for name in masks)


def one_row_of_a_mask(call: Call) -> bool:
    q, mask = call.shape(0), call.shape(3)
    return q is not None and mask is not None and len(mask) > 1 and mask[-2] == 1 != q[-2]


def stacks(call: Call) -> bool:
    """Whether a Loop has outputs beside what it carries."""
    return len(call.node.output) > max(len(call.node.input) - 2, 0)


def origin(body: GraphProto, name: str) -> str:
    """What a value of a body is called in front of Identity nodes."""
    made = {node.output[0]: node.input[0] for node in body.node if node.op_type == "Identity"}
    while name in made:
        name = made[name]
    return name


def strings_from_outside(call: Call) -> bool:
    """Whether what is stacked is nothing but an Identity of a string that the body does not compute, or carries as it is."""
    body = call.attribute("body")
    if body is None or not stacks(call):
        return False
    inside = {v.name for v in body.input[:2]} | {
        o for node in body.node for o in node.output if node.op_type != "Identity"
    }
    carried = {v.name: origin(body, o.name) for v, o in zip(body.input[2:], body.output[1:], strict=False)}
    for out in body.output[1 + len(carried) :]:
        source = origin(body, out.name)
        computed = carried.get(source, source) in inside
        if source != out.name and not computed and out.type.tensor_type.elem_type == TensorProto.STRING:
            return True
    return False


def trains_what_others_read(call: Call) -> bool:
    read = [name for body in bodies(call.values.of) for node in body.node for name in node.input]
    return bool(call.attribute("training_mode", 0)) and any(read.count(name) > 1 for name in call.node.input[3:5])


def nearest_of_not_finite(call: Call) -> bool:
    return encoded(call.attribute("mode", "nearest")) == b"nearest" and holds(call.given(0), lambda v: ~np.isfinite(v))


def empty(call: Call) -> bool:
    return np.size(call.given(0)) == 0


def empty_from_the_end(call: Call) -> bool:
    """Whether what has no element is reduced along an axis that is counted from the end, as far as that is known."""
    return 0 in (call.shape(0) or ()) and _from_the_end(call)


def unknown_from_the_end(call: Call) -> bool:
    return call.shape(0) is None and _from_the_end(call)


def _from_the_end(call: Call) -> bool:
    held = len(call.node.input) > 1 and bool(call.node.input[1])
    axes = call.given(1) if held else call.attribute("axes", [call.attribute("axis", 0)])
    return axes is None or any(axis < 0 for axis in axes)


def negative_index(call: Call) -> bool:
    """Whether an index below opset 11, where none may be, is negative, or nothing is known of it."""
    return call.opset < 11 and (call.given(0) is None or bool((call.given(0) < 0).any()))


def ignores(call: Call) -> bool:
    ignored, targets = call.attribute("ignore_index"), call.given(1)
    return ignored is not None and (targets is None or bool((targets == ignored).any()))


def beyond_the_end(call: Call) -> int:
    """How far behind the end of the axis the last of numbered parts begins; -1 where it begins before that."""
    parts, shape, axis = call.attribute("num_outputs", 0), call.shape(0) or (), call.attribute("axis", 0)
    if not parts or not -len(shape) <= axis < len(shape):
        return -1
    return max(-(-shape[axis] // parts) * (parts - 1) - shape[axis], -1)


def cropped_by_scales(call: Call) -> bool:
    scales = call.node.input[2] if len(call.node.input) > 2 else ""
    return call.attribute("coordinate_transformation_mode") == "tf_crop_and_resize" and bool(scales)


def _sized(call: Call) -> list[tuple[int, int, float]] | None:
    """What a Resize is given sizes for: axis, its size, and the one that is asked for; None where they are unknown, or it is not."""
    sizes, shape = call.given(3), call.shape(0)
    if sizes is None or shape is None:
        return None
    axes = call.attribute("axes", range(len(shape)))
    return [(axis, shape[axis], float(size)) for axis, size in zip(axes, sizes.reshape(-1), strict=False)]


def cropped_to_its_size(call: Call) -> bool:
    """Whether a Resize crops a region and yields as many elements along each axis as there are."""
    asked = _sized(call)
    if call.attribute("coordinate_transformation_mode") != "tf_crop_and_resize" or asked is None:
        return False
    policy, scales = (
        encoded(call.attribute("keep_aspect_ratio_policy", "stretch")),
        [to / of for _, of, to in asked if of],
    )
    if scales and policy != b"stretch":
        scale = max(scales) if policy == b"not_smaller" else min(scales)
        asked = [(axis, of, np.floor(of * scale + 0.5)) for axis, of, _ in asked]
    return all(of == to for _, of, to in asked)


def keeps_ratio_from_the_end(call: Call) -> bool:
    """Whether a Resize keeps the ratio of axes of which one is counted from the end."""
    keeps = encoded(call.attribute("keep_aspect_ratio_policy", "stretch")) != b"stretch"
    return keeps and not left_out(3)(call) and any(axis < 0 for axis in call.attribute("axes", ()))


def cuts_aligned(call: Call) -> bool:
    scales, shape = call.given(2 if call.opset > 10 else 1), call.shape(0)
    given = call.node.input[2 if call.opset > 10 else 1 :][:1]
    if call.attribute("coordinate_transformation_mode") != "align_corners" or not any(given):
        return False
    if scales is None or shape is None:
        return True
    axes = call.attribute("axes", range(len(shape)))
    sizes = [shape[axis] * scale for axis, scale in zip(axes, scales.reshape(-1), strict=False)]
    return any(size != np.trunc(size) for size in sizes)


def infinite_bound(call: Call) -> bool:
    return any(holds(call.given(i), lambda v, sign=sign: v == sign * np.inf) for i, sign in ((1, 1), (2, -1)))


def unbounded(call: Call) -> bool:
    """Whether a Clip has no lower or no upper bound of its own."""
    if call.opset < 11:
        return None in map(call.attribute, ("min", "max"))
    return left_out(1)(call) or left_out(2)(call)


def lowest(call: Call) -> bool:
    mask = call.given(3)
    return isinstance(mask, np.ndarray) and mask.dtype.kind == "f" and bool((mask == np.finfo(mask.dtype).min).any())


def shorter(call: Call) -> bool:
    lengths, x = call.given(4), call.given(0)
    return lengths is not None and x is not None and bool((lengths != x.shape[call.attribute("layout", 0)]).any())


def other_batches(call: Call) -> bool:
    a, b = call.shape(0) or (), call.shape(1) or ()
    return len(b) > 2 and 0 in (*a[:-2], *b[:-2]) and a[:-2] != b[:-2]


def steps_over_elements(call: Call) -> bool:
    """Whether pads that are to be found out would be negative."""
    asks = encoded(call.attribute("auto_pad", "NOTSET")).startswith(b"SAME") and (
        call.node.op_type == "MaxPool" or call.opset < 19
    )
    kernel = call.attribute("kernel_shape", ())
    dilations, strides = (call.attribute(name, [1] * len(kernel)) for name in ("dilations", "strides"))
    return asks and any(s > d * (k - 1) + 1 for s, d, k in zip(strides, dilations, kernel, strict=False))


def transposed_to_nothing(call: Call) -> bool:
    """Whether the pads of a ConvTranspose take all elements along an axis that it has."""
    x, w = call.shape(0), call.shape(1)
    if x is None or w is None or call.attribute("output_shape") is not None:
        return False
    count = len(x) - 2
    if encoded(call.attribute("auto_pad", "NOTSET")).startswith(b"SAME"):
        return 0 in x[2:]
    strides, dilations = (call.attribute(name, [1] * count) for name in ("strides", "dilations"))
    more, pads = call.attribute("output_padding", [0] * count), call.attribute("pads", [0] * 2 * count)
    return any(
        strides[k] * (x[2 + k] - 1) + more[k] + dilations[k] * (w[2 + k] - 1) + 1 == pads[k] + pads[k + count]
        for k in range(count)
    )


def infinitely_far_behind(call: Call) -> bool:
    """Whether a Range is to go on for less than any number of steps, which is none."""
    bounds = [call.given(at) for at in range(3)]
    if any(bound is None or np.size(bound) != 1 for bound in bounds):
        return False
    start, limit, delta = (float(np.reshape(bound, -1)[0]) for bound in bounds)
    with np.errstate(all="ignore"):
        return bool(np.divide(limit - start, delta) == -np.inf)


def exponentials_beyond_doubles(call: Call) -> bool:
    """Whether the largest number of some sum of exponentials has one that float64 does not hold, or not with all digits."""
    x, axes = call.given(0), call.given(1)
    if x is None or not x.size:
        return False
    over = {int(axis) % x.ndim for axis in axes.reshape(-1)} if axes is not None else ()
    each = not over and bool(call.attribute("noop_with_empty_axes", 0))
    largest = np.fmax.reduce(x.astype(np.float64), axis=tuple(over) if over or each else None)
    return bool((np.isfinite(largest) & ((largest > 709) | (largest < -708))).any())


def unsorted_behind_the_first_axis(call: Call) -> bool:
    """Whether a Unique keeps the order of what is not along the first axis, and says where it was."""
    x, axis = call.shape(0), call.attribute("axis")
    if call.attribute("sorted", 1) or len(call.node.output) < 2:
        return False
    return x is None or (len(x) > 1 and (axis is None or axis % len(x) != 0))


def many_by_nothing(call: Call) -> bool:
    """Whether vectors or a matrix are multiplied by many matrices, or these by a vector, of no inner size."""
    a, b = call.shape(0), call.shape(1)
    return bool(a and b) and a[-1] == 0 and (len(a) <= 2 < len(b) or len(b) == 1 < 2 < len(a))


def axes_in_no_order(call: Call) -> bool:
    """Whether several axes are not those of the result from the first to the last."""
    axes = list(call.attribute("axes", ()))
    return len(axes) > 1 and (axes != sorted(axes) or axes[0] < 0)


def pads_mixed_up(call: Call) -> bool:
    """Whether there are pads that are not four of which the inner ones are equal, or are counted where sizes are rounded up."""
    pads = call.attribute("pads", ())
    plain = all(size == 1 for name in ("strides", "dilations") for size in call.attribute(name, ()))
    return plain and any(pads) and (len(pads) != 4 or pads[1] != pads[2] or bool(call.attribute("ceil_mode", 0)))


def no_step(call: Call) -> bool:
    lengths = call.given(4)
    return lengths is not None and bool((lengths == 0).any())


def no_time(call: Call) -> bool:
    x = call.given(0)
    return x is not None and x.shape[call.attribute("layout", 0)] == 0


def nothing_to_sum(call: Call) -> bool:
    """Whether the matrices of a Gemm have no inner size."""
    x = call.shape(0)
    return x is not None and len(x) == 2 and x[0 if call.attribute("transA", 0) else 1] == 0


def negative_zero_of_16_bits(call: Call) -> bool:
    """Whether a float16 is -0.0, or may be."""
    x = call.given(0)
    return x is None or (x.dtype == np.float16 and holds(x, lambda v: (v == 0) & np.signbit(v)))


def rounds_up(call: Call) -> bool:
    """Whether a pool has windows that reach beyond the data and their pads."""
    x, kernel, one = call.shape(0), call.attribute("kernel_shape", []), [1] * len(call.attribute("kernel_shape", []))
    if x is None or not call.attribute("ceil_mode", 0) or encoded(call.attribute("auto_pad", "NOTSET")) != b"NOTSET":
        return False
    pads = call.attribute("pads") or [0] * 2 * len(kernel)
    strides, dilations = call.attribute("strides") or one, call.attribute("dilations") or one
    sizes = [size + begin + end for size, begin, end in zip(x[2:], pads, pads[len(kernel) :], strict=False)]
    rest = zip(sizes, kernel, strides, dilations, strict=False)
    return any((size - 1 - (extent - 1) * gap) % stride for size, extent, stride, gap in rest)


def beyond_doubles(value: Any) -> bool:
    """Whether a whole number is known to be larger than float64 holds all of."""
    return value is not None and value.dtype.kind in "iu" and bool((np.abs(value.astype(np.float64)) > 2**53 - 1).any())


def differ_in_bit_31(call: Call) -> bool:
    """Whether integers of 64 bits have equal upper halves, and lower ones of which one alone would be negative."""
    given = [x for at in range(len(call.node.input)) if (x := call.given(at)) is not None and x.dtype == np.int64]
    return any((((a ^ b) >> 31) == 1).any() for a, b in combinations(given, 2))


def causal_with_lengths_of_64_bits(call: Call) -> bool:
    causal = bool(call.attribute("is_causal", 0)) and not left_out(6)(call)
    return causal and getattr(call.given(0), "dtype", np.float64) == np.float64


def shrinks_beyond_floats(call: Call) -> bool:
    """Whether a whole number of 32 bits may be larger than float32 holds all of, or is next to one with a bias, which is cut then."""
    x, bias = call.given(0), call.attribute("bias", 0.0)
    if x is None or x.dtype.kind not in "iu" or x.itemsize < 4:
        return x is None
    wide = x.astype(np.float64)
    lost = [np.trunc(wide + by) != np.trunc(wide.astype(np.float32) + np.float32(by)) for by in (bias, -bias)]
    return bool((np.abs(wide) > 2**24).any() or np.any(lost))


def powers_beyond_16_bits(call: Call) -> bool:
    """Whether a sum of powers in a pool may be larger than a float16 is."""
    x = call.given(0)
    if x is None or x.dtype != np.float16:
        return False
    sizes = np.abs(x.astype(np.float64)[np.isfinite(x)])
    return bool(np.sum(sizes ** float(call.attribute("p", 2))) > np.finfo(np.float16).max)


def default_threshold(call: Call) -> bool:
    return b"ThresholdedRelu" in map(encoded, call.attribute("activations", [])) and not call.attribute(
        "activation_alpha"
    )


def turns_roughly(call: Call) -> bool:
    """Whether a DFT may be of float64, and as long as no power of 2, which onnxruntime computes in another way."""
    x, shape, axis = call.given(0), call.shape(0), call.attribute("axis", 1) if call.opset < 20 else call.given(2)
    length = call.given(1)
    if x is not None and x.dtype != np.float64:
        return False
    if length is None and shape is not None:
        axis = -2 if axis is None else int(axis)
        length = shape[axis] if -len(shape) <= axis < len(shape) else None
    return length is None or (int(length) & (int(length) - 1)) != 0


def encoded(text: Any) -> bytes:
    return text.encode() if isinstance(text, str) else text  # type: ignore[no-any-return]

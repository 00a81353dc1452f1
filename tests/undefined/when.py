"""When a call is one of which the text of its operator says nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.conditions import encoded, left_out, origin
from tests.node_calls import Call

Place = tuple[int, int]  # an input and an axis of it
LEAST_POWER = 0.01  # of float32: the root of a sum that is 6e-8 off is 6e-6 off


def whole(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"


def divides_by_zero(call: Call) -> bool:
    by = call.given(1)
    return whole(by) and not by.all()


def beyond_the_data(*places: int) -> Callable[[Call], bool]:
    """Whether an input cannot be broadcast to the sizes of the first one."""

    def is_beyond(call: Call) -> bool:
        x = call.shape(0)
        shapes = [shape for place in places if (shape := call.shape(place)) is not None]
        return x is not None and any(_beyond(x, shape) for shape in shapes)

    return is_beyond


def _beyond(x: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(x, shape) != x
    except ValueError:
        return True


def no_vector(index: int) -> Callable[[Call], bool]:
    return lambda call: (shape := call.shape(index)) is not None and len(shape) != 1


def negative(index: int) -> Callable[[Call], bool]:
    return lambda call: call.given(index) is not None and bool((call.given(index) < 0).any())


def unequal(*places: tuple[Place, ...]) -> Callable[[Call], bool]:
    """Whether sizes differ that are to be equal, and that inference does not compare."""

    def applies(call: Call) -> bool:
        shapes = [[(call.shape(index), axis) for index, axis in equal] for equal in places]
        sizes = [
            {shape[axis] for shape, axis in equal if shape is not None and -len(shape) <= axis < len(shape)}
            for equal in shapes
        ]
        return any(len(equal) > 1 for equal in sizes)

    return applies


def unequal_shapes(one: int, other: int) -> Callable[[Call], bool]:
    """Whether two inputs are known to have other sizes."""
    return lambda call: None not in (call.shape(one), call.shape(other)) and call.shape(one) != call.shape(other)


def updates_apart(call: Call) -> bool:
    data, indices, updates = map(call.shape, range(3))
    return (
        data is not None and bool(indices) and updates is not None and updates != (*indices[:-1], *data[indices[-1] :])
    )


def asks_for_more(call: Call) -> bool:
    x, k = call.shape(0), call.attribute("k") if call.opset < 10 else call.given(1)
    axis = call.attribute("axis", -1)
    return x is not None and k is not None and -len(x) <= axis < len(x) and bool(np.any(np.asarray(k) > x[axis]))


def without_end(call: Call) -> bool:
    """Whether no finite number of elements leads from a start to a limit; a limit that lies behind it is reached by none."""
    if any(call.given(at) is None for at in range(3)):
        return False
    start, limit, delta = (np.asarray(call.given(at)).astype(np.float64) for at in range(3))
    with np.errstate(all="ignore"):
        count = (limit - start) / delta
    return bool((np.isnan(count) | np.isposinf(count)).any())


def unequal_batch(call: Call) -> bool:
    return unequal(((0, call.attribute("batch_axis", 1)), (1, 0)))(call)


def no_such_length(call: Call) -> bool:
    x, lengths, axis = call.shape(0), call.given(1), call.attribute("time_axis", 0)
    return x is not None and lengths is not None and bool(((lengths < 0) | (lengths > x[axis])).any())


def no_class(call: Call) -> bool:
    """Whether a target that counts is none of the scores, or counted from the end."""
    scores, targets, ignored = call.shape(0), call.given(1), call.attribute("ignore_index")
    if scores is None or targets is None or len(scores) < 2:
        return False
    return bool((((targets < 0) | (targets >= scores[1])) & (True if ignored is None else targets != ignored)).any())


def no_variance(call: Call) -> bool:
    """Whether numbers are all equal: 0 / 0 by the formula, as in onnxruntime, and 0 / 1e-9 by the body."""
    x = call.given(0)
    return x is None or not np.ptp(x, axis=tuple({axis % x.ndim for axis in call.attribute("axes", [0, 2, 3])})).all()


def least_variance(call: Call) -> bool:
    """Whether numbers differ by less than makes 1e-9 nothing beside their deviation."""
    x = call.given(0)
    if x is None:
        return False
    spread = np.ptp(x, axis=tuple({axis % x.ndim for axis in call.attribute("axes", [0, 2, 3])}))
    return bool(np.any(spread < 1e-5))


def singular(call: Call) -> bool:
    """Whether a determinant is no more than roundings of the products that it sums."""
    x = call.given(0)
    if x is None or not x.size or not np.isfinite(x.astype(np.float64)).all():
        return False
    rows = x.astype(np.float64)
    most = np.linalg.norm(rows, axis=-1).prod(-1)
    return bool((np.abs(np.linalg.det(rows)) <= 8 * np.finfo(np.float32).eps * most).any())


def no_window(call: Call) -> bool:
    """Whether all of a window are ends, which are 0.42 - 0.5 + 0.08: what is left is rounding."""
    size = call.given(0)
    return size is not None and 0 < int(size) <= (1 if call.attribute("periodic", 1) else 2)


def ends_at_a_rounding(call: Call) -> bool:
    """Whether a window ends where it begins, at a cosine of 2 pi."""
    size = call.given(0)
    return not call.attribute("periodic", 1) and (size is None or bool(np.all(size > 1)))


def adds_beyond_products(call: Call) -> bool:
    """Whether what a Gemm adds has other sizes than the product."""
    a, b, c = map(call.shape, range(3))
    if a is None or b is None or c is None or len(a) != 2 or len(b) != 2:
        return False
    return _beyond((a[1 if call.attribute("transA", 0) else 0], b[0 if call.attribute("transB", 0) else 1]), c)


def out_of_range(call: Call) -> bool:
    x = call.given(0)
    return whole(x) and bool((np.abs(x.astype(np.float64)) > 2.0 ** (8 * x.itemsize - 2)).any())


def powers_out_of_range(call: Call) -> bool:
    x, by = call.given(0), call.given(1)
    if not whole(x) or by is None:
        return False
    with np.errstate(all="ignore"):
        powers = np.abs(np.power(np.abs(x.astype(np.float64)), by.astype(np.float64)))
    return bool((powers > np.iinfo(x.dtype).max).any())


def products_out_of_range(call: Call) -> bool:
    """Whether a sum of products of whole numbers may be larger than their type holds."""
    values = [call.given(at) for at in range(len(call.node.input))]
    if not all(map(whole, values)):
        return False
    sizes = [np.abs(value.astype(np.float64)) for value in values]
    equation = encoded(call.attribute("equation", "")).decode()
    sums = np.einsum(equation, *sizes) if call.node.op_type == "Einsum" else np.matmul(*sizes)
    return bool((sums >= float(np.iinfo(values[0].dtype).max)).any())


def beyond(call: Call) -> bool:
    x, chosen, axis = call.shape(0), call.given(1), call.attribute("axis")
    if x is None or chosen is None or (axis is not None and not -len(x) <= axis < len(x)):
        return False
    return bool(np.size(chosen) > (int(np.prod(x)) if axis is None else x[axis]))


def broadcasts_data(call: Call) -> bool:
    x, slope = call.shape(0), call.shape(1)
    if x is None or slope is None:
        return False
    if call.opset < 7:  # one for all, or one for each channel
        return (x, slope) == ((), (1,))
    return _beyond(x, slope)


def infinite(index: int) -> Callable[[Call], bool]:
    return lambda call: call.given(index) is not None and bool(np.isinf(call.given(index).astype(np.float64)).any())


def not_finite(call: Call) -> bool:
    x = call.given(0)
    return isinstance(x, np.ndarray) and x.dtype.kind == "f" and not np.isfinite(x).all()


def zeros_of_both_signs(call: Call) -> bool:
    values = [call.given(at) for at, name in enumerate(call.node.input) if name]
    if any(value is None for value in values):
        return True
    values += [np.float32(call.attribute(name)) for name in ("min", "max") if call.attribute(name) is not None]
    arrays = [np.asarray(v) for v in values if v is not None and np.asarray(v).dtype.kind == "f"]
    signs = {bool(sign) for v in arrays for sign in np.signbit(v[v == 0]).reshape(-1)}
    return len(signs) > 1


def negative_zero(call: Call) -> bool:
    x = call.given(0)
    return x is None or (x.dtype.kind == "f" and bool((np.signbit(x) & (x == 0)).any()))


def not_one_size_an_axis(call: Call) -> bool:
    x, sizes = call.shape(0), call.shape(1)
    return x is not None and sizes is not None and sizes != (len(call.attribute("axes", x)),)


def no_region(call: Call) -> bool:
    crops = call.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    left_out = len(call.node.input) < 2 or not call.node.input[1]
    return crops and (left_out or 0 in (call.shape(1) or ()))


def crops_beyond_all(call: Call) -> bool:
    region = call.given(1)
    crops = call.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    return crops and region is not None and not np.isfinite(region.astype(np.float64)).all()


def trains(call: Call) -> bool:
    return bool(np.any(call.given(2))) if call.opset >= 12 else call.opset < 7 and not call.attribute("is_test", 0)


def other_batches(call: Call) -> bool:
    x, indices, count = call.shape(0), call.shape(1), call.attribute("batch_dims", 0)
    return x is not None and indices is not None and x[:count] != indices[:count]


def outside_of_data(call: Call) -> bool:
    x, indices, count = call.shape(0), call.given(1), call.attribute("batch_dims", 0)
    if x is None or indices is None or not indices.ndim:
        return False
    dims = x[count : count + indices.shape[-1]]
    return len(dims) == indices.shape[-1] and bool(((indices < -np.array(dims)) | (indices >= dims)).any())


def no_parts(call: Call) -> bool:
    return call.shape(1) not in (None, (len(call.node.output),))


def no_pixel(call: Call) -> bool:
    return 0 in (call.shape(0) or ())[2:]


def labels_apart(call: Call) -> bool:
    """Whether a letter of an equation stands for sizes that differ."""
    terms = encoded(call.attribute("equation", "")).decode().replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, set[int]] = {}
    for at, term in enumerate(terms):
        ahead, _, behind = term.partition("...")
        shape = call.shape(at) or ()
        for letters, dims in ((ahead, shape), (behind[::-1], shape[::-1])):
            for letter, size in zip(letters, dims, strict=False):
                sizes.setdefault(letter, set()).add(size)
    return any(len(found) > 1 for found in sizes.values())


def no_number(value: Any) -> bool:
    return value is not None and bool(np.isnan(value.astype(np.float64)).any())


def parts_apart(call: Call) -> bool:
    """Whether sizes of parts do not add up: without a loss, as two of -2^63 are 0 in 64 bits."""
    sizes = call.given(1) if len(call.node.input) > 1 else call.attribute("split")
    shape, axis = call.shape(0), call.attribute("axis", 0)
    if sizes is None or shape is None or not -len(shape) <= axis < len(shape):
        return False
    if np.ndim(sizes) == 0:
        return int(sizes) <= 0
    parts = [int(size) for size in sizes]
    return any(part < 0 for part in parts) or sum(parts) != shape[axis]


def reduces_no_number(call: Call) -> bool:
    return call.attribute("reduction") in ("max", "min") and any(no_number(call.given(at)) for at in (0, 2))


def counts_floats(call: Call) -> bool:
    return (x := call.given(0)) is None or x.dtype.kind == "f"


def joins_others(call: Call) -> bool:
    """Whether what is joined has other sizes beside the axis; some runtimes look at none that are empty."""
    shapes, axis = [call.shape(at) for at in range(len(call.node.input))], call.attribute("axis", 1)
    known = [[*shape] for shape in shapes if shape is not None]
    if not known or not all(-len(shape) <= axis < len(shape) for shape in known):
        return False
    return len({tuple(size for at, size in enumerate(shape) if at != axis % len(shape)) for shape in known}) > 1


def nothing_along(call: Call) -> bool:
    x, axis = call.shape(0), call.attribute("axis", 0)
    return x is not None and -len(x) <= axis < len(x) and x[axis] == 0


def found_beside_none(call: Call) -> bool:
    sizes = call.given(1)
    return sizes is not None and bool(call.attribute("allowzero", 0)) and {0, -1} <= set(sizes.reshape(-1).tolist())


def broadcasts_early(call: Call) -> bool:
    shapes = {call.shape(at) for at in range(len(call.node.input))} - {None}
    return call.opset < 8 and len(shapes) > 1


def broadcasts_first(call: Call) -> bool:
    x, z = call.shape(0), call.shape(1)
    return (
        call.opset < 7 and bool(call.attribute("broadcast", 0)) and x is not None and z is not None and len(z) > len(x)
    )


def broadcasts_unasked(call: Call) -> bool:
    shapes = {call.shape(at) for at in range(2)} - {None}
    return call.opset < 7 and len(shapes) > 1 and not call.attribute("broadcast", 0)


def other_weights(call: Call) -> bool:
    """Whether an input has other sizes than the data, the direction and the hidden size ask for; engines may broadcast it."""
    x, r = call.shape(0), call.shape(2)
    if x is None or r is None or len(x) != 3:
        return False
    if len(r) != 3:
        return True
    gates, turned = {"RNN": 1, "GRU": 3, "LSTM": 4}[call.node.op_type], call.attribute("layout", 0)
    size = call.attribute("hidden_size", r[2])
    ways = 2 if encoded(call.attribute("direction", "forward")) == b"bidirectional" else 1
    batch = x[0] if turned else x[1]
    first = (batch, ways, size) if turned else (ways, batch, size)
    asked: dict[int, tuple[int, ...]] = {
        1: (ways, gates * size, x[2]), 2: (ways, gates * size, size), 3: (ways, 2 * gates * size), 4: (batch,), 5: first,
        6: first, 7: (ways, 3 * size),
    }  # fmt: skip
    return any(call.shape(at) not in (None, sizes) for at, sizes in asked.items())


def never_ends(call: Call) -> bool:
    """Whether no number of trips is given, and the condition is true and stays so."""
    body = call.attribute("body")
    if body is None or not left_out(0)(call):
        return False
    stays = origin(body, body.output[0].name)
    held = {tensor.name for tensor in body.initializer}
    held |= {name for node in body.node if node.op_type == "Constant" for name in node.output}
    true = stays == body.input[1].name or (stays in held and bool(np.any(call.values.get(stays))))
    return true and (left_out(1)(call) or bool(np.any(call.given(1))))


def stacks_nothing(call: Call) -> bool:
    """Whether there is no trip, or there may be none, and values are stacked, of which nothing tells the sizes."""
    body, trips, goes_on = call.attribute("body"), call.given(0), call.given(1)
    if body is None or len(body.output) <= len(body.input) - 1:
        return False
    return (trips is not None and not np.any(trips > 0)) or (goes_on is not None and not np.any(goes_on))

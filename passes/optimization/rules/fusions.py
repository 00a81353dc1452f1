"""Neighbours that one node can do together. What rounds differently is `close`, and says so."""

from __future__ import annotations

from typing import Any

from opshift.passes.model import tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.says import says
from opshift.passes.simplification import dimensions, shape_values
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule
from opshift.passes.simplification.workspace import GROWTH

_CONVOLUTIONS = ("Conv", "ConvTranspose")
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_BIAS_FIRST = "the factor goes into the weights, the summand into the bias"


@says("Merged BatchNormalization into the convolution before it")
@rule("BatchNormalization", close=True, settles=True)
def normalize_in_convolution(call: Call) -> Outcome:
    if call.attribute("training_mode", 0) or not call.attribute("spatial", 1) or any(call.proto.output[1:]):
        return None
    scale, bias, mean, variance = (call.array(k) for k in range(1, 5))
    if any(value is None or value.dtype.kind != "f" for value in (scale, bias, mean, variance)):
        return None
    with np.errstate(all="ignore"):  # a variance that is none makes no number, here as at run time
        factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + call.attribute("epsilon", 1e-5))
        summand = bias.astype(np.float64) - mean.astype(np.float64) * factor
    return _into_convolution(call, 0, factor, summand)


@says("Merged arithmetic with constants into the convolution before it")
@rule("Add", "Sub", "Mul", "Div", close=True, settles=True)
def compute_in_convolution(call: Call) -> Outcome:
    for value, other in ((0, 1), (1, 0)) if call.op in ("Add", "Mul") else ((0, 1),):
        made = call.maker(value)
        if made is None or made.op not in _CONVOLUTIONS or call.array(other, 1 << 16) is None:
            continue
        weights, held = made.shape(1), call.array(other, 1 << 16)
        rank = len(weights or ())
        if rank < 3 or held.ndim > rank or held.dtype.kind != "f":
            return None
        channels = _channels(made)
        aligned = held.reshape((1,) * (rank - held.ndim) + held.shape)
        if channels is None or aligned.size not in (1, channels) or aligned.shape[1] != aligned.size:
            return None
        numbers = np.broadcast_to(aligned.reshape(-1).astype(np.float64), (channels,))
        if call.op in ("Mul", "Div"):
            with np.errstate(all="ignore"):  # what is divided by 0 stays
                factor = numbers if call.op == "Mul" else 1 / numbers
            return _into_convolution(call, value, factor, np.zeros(channels))
        return _into_convolution(call, value, np.ones(channels), numbers if call.op == "Add" else -numbers)
    return None


def _channels(convolution: Call) -> int | None:
    """How many channels a convolution makes."""
    weights = convolution.shape(1)
    if weights is None or not all(isinstance(dim, int) for dim in weights[:2]):
        return None
    if convolution.op == "Conv":
        return int(weights[0])  # type: ignore[arg-type]
    return int(weights[1]) * int(convolution.attribute("group", 1))  # type: ignore[arg-type]


def _into_convolution(call: Call, index: int, factor: Any, summand: Any) -> Outcome:
    """Let a convolution that nothing else reads multiply and add for each channel."""
    made = call.maker(index)
    if made is None or made.op not in _CONVOLUTIONS or not call.alone(index):
        return None
    channels = _channels(made)
    weights, bias = made.array(1), made.array(2)
    if weights is None or (made.input(2) and bias is None) or channels is None or factor.shape != (channels,):
        return None
    if weights.nbytes > GROWTH and not call.space.whole.check_uses(made.input(1), 1):
        return None  # others need them as they are
    if weights.dtype.kind != "f" or not (np.isfinite(factor).all() and np.isfinite(summand).all()):
        return None
    with np.errstate(all="ignore"):  # what overflows is looked at
        scaled = weights if (factor == 1).all() else _scale_weights(made, weights, factor)
        shifted = summand if bias is None else bias.astype(np.float64) * factor + summand
        rounded = shifted.astype(weights.dtype)
    if scaled is None or not np.isfinite(rounded).all():
        return None
    names = [made.input(0), made.input(1), made.input(2)]
    if scaled is not weights:
        names[1] = call.hold(scaled, made.input(1))
    if names[2] or shifted.any():
        names[2] = call.hold(rounded, names[2] or f"{made.output}/bias")
    _become(call, made, names)
    call.close(_BIAS_FIRST)
    return EDITED


def _scale_weights(made: Call, weights: Any, factor: Any) -> Any:
    """The weights of a convolution times a factor for each channel; None where they lose what makes them numbers."""
    largest = max(float(weights.max(initial=0.0)), -float(weights.min(initial=0.0)))
    if _is_near_zero(weights.dtype, largest, factor):
        return None
    if made.op == "Conv":
        scaled = weights * factor.reshape(-1, *(1,) * (weights.ndim - 1))
    else:
        grouped = weights.reshape(int(made.attribute("group", 1)), -1, *weights.shape[1:])
        each = factor.reshape(len(grouped), 1, -1, *(1,) * (weights.ndim - 2))
        scaled = (grouped * each).reshape(weights.shape)
    rounded = scaled.astype(weights.dtype)
    fits = largest * np.abs(factor).max(initial=0.0) <= np.finfo(weights.dtype).max  # then all products do
    return rounded if fits or np.isfinite(rounded).all() else None


def _is_near_zero(kind: Any, largest: float, factor: Any) -> bool:
    """Whether a factor may leave weights with few bits, below the normal numbers of their type."""
    products = np.abs(factor[factor != 0]) * largest
    return bool(largest and (products < np.finfo(kind).tiny).any())


def _become(call: Call, made: Call, names: list[str]) -> None:
    """Let a node do what the one in front of it does, with other inputs."""
    call.proto.op_type = made.op
    if made.proto.name:
        call.proto.name = made.proto.name
    del call.proto.attribute[:]
    call.proto.attribute.extend(made.proto.attribute)
    del call.proto.output[1:]
    call.read(*names)


@says("Merged MatMul and Add into Gemm")
@rule("Add", since=11, close=True, settles=True)
def multiply_and_add(call: Call) -> Outcome:
    for product, other in ((0, 1), (1, 0)):
        made = call.maker_if("MatMul", product)
        if made is None or not call.alone(product) or call.elem_type(other) not in _FLOATS:
            continue
        a, b, held = made.shape(0), made.shape(1), call.shape(other)
        if a is None or b is None or held is None or len(a) != 2 or len(b) != 2 or not 1 <= len(held) <= 2:
            continue
        if call.space.array(made.input(1)) is None and call.space.tensor(made.input(1)) is None:
            continue  # only what is a layer: two values and a sum stay as they are
        if not all(dim in (1, own) for dim, own in zip(reversed(held), (b[1], a[0]), strict=False)):
            continue
        bias = call.input(other)
        call.proto.op_type = "Gemm"
        call.read(made.input(0), made.input(1), bias)
        call.close("may add the bias before summing")
        return EDITED
    return None


@says("Merged Transpose into Gemm")
@rule("Gemm", close=True)
def multiply_transposed(call: Call) -> Outcome:
    for index, flag in ((0, "transA"), (1, "transB")):
        made = call.maker(index)
        if made is None or made.op != "Transpose" or made.attribute("perm", [1, 0]) != [1, 0]:
            continue
        names = list(call.inputs)
        names[index] = made.input(0)
        call.read(*names)
        call.set(flag, 1 - call.attribute(flag, 0) or None)
        call.close("may sum in another order")
        return EDITED
    return None


@says("Merged Pad into Conv")
@rule("Conv", since=11, close=True)
def pad_in_convolution(call: Call) -> Outcome:
    pads = _zeros_around(call)
    made = call.maker()
    if pads is None or made is None:
        return None
    own = call.attribute("pads") or [0] * len(pads)
    if call.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or len(own) != len(pads):
        return None
    call.read(made.input(0), *list(call.inputs)[1:])
    call.set("auto_pad", None)
    call.set("pads", [a + b for a, b in zip(own, pads, strict=True)])
    call.close("may leave out products with zeros")
    return EDITED


@says("Removed padding of a convolution that no window reaches")
@rule("Conv")
def leave_out_unreached_padding(call: Call) -> Outcome:
    """IREE 3.13 takes the window for as wide as the padded data if the result has one element."""
    pads, strides = call.attribute("pads"), call.attribute("strides")
    if not pads or not strides or max(strides) == 1 or call.attribute("auto_pad", "NOTSET") != "NOTSET":
        return None  # windows of stride 1 reach all, so that nobody has to infer shapes
    count, dims, weights = len(pads) // 2, call.shape(0), call.shape(1)
    if dims is None or weights is None or not len(dims) == len(weights) == count + 2:
        return None
    dilations = call.attribute("dilations") or [1] * count
    fewer = list(pads)
    for axis, (size, window) in enumerate(zip(dims[2:], weights[2:], strict=True)):
        if isinstance(size, int) and isinstance(window, int):
            steps = size + pads[axis] + pads[axis + count] - dilations[axis] * (window - 1) - 1
            if steps >= 0:
                fewer[axis + count] -= max(0, min(steps % strides[axis], pads[axis + count]))
    if fewer == list(pads):
        return None
    call.set("pads", fewer)
    return EDITED


def _zeros_around(call: Call) -> list[int] | None:
    """By how much the Pad in front of a node pads each spatial axis with zeros, if it does nothing else."""
    made = call.maker()
    if made is None or made.op != "Pad" or made.attribute("mode", "constant") != "constant" or made.input(3):
        return None
    pads = made.ints(1)
    if pads is None or len(pads) < 6 or min(pads) < 0:
        return None
    half = len(pads) // 2
    if any(pads[:2]) or any(pads[half : half + 2]):
        return None
    value = made.array(2)
    if made.input(2) and (value is None or value.size != 1 or value.dtype.kind != "f" or value.any()):
        return None
    return [*pads[2:half], *pads[half + 2 :]]


@says("Merged Pad into AveragePool")
@rule("AveragePool", since=11, close=True)
def pad_in_average(call: Call) -> Outcome:
    pads, made = _zeros_around(call), call.maker()
    own = call.attribute("pads")
    if pads is None or made is None or call.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    if call.attribute("ceil_mode", 0) or (own and any(own)) or len(call.attribute("kernel_shape")) * 2 != len(pads):
        return None
    if any(pad >= size for pad, size in zip(pads, call.attribute("kernel_shape") * 2, strict=True)):
        return None
    shape = made.shape()
    if shape is None or not all(isinstance(size, int) for size in shape[2:]):
        call.grant()  # onnxruntime pools no axis without elements, whatever is padded
    elif 0 in shape[2:]:
        return None
    call.read(made.input(0))
    call.set("auto_pad", None)
    call.set("pads", pads)
    call.set("count_include_pad", 1)
    call.close("may sum in another order")
    return EDITED


@says("Merged MatMul, Add and Reshape into Gemm")
@rule("Reshape", since=11, close=True)
def multiply_rows(call: Call) -> Outcome:
    added, shape = call.maker(), _target_shape(call)
    if added is None or added.op != "Add" or shape is None or not call.alone():
        return None
    for product, other in ((0, 1), (1, 0)):
        made, bias = added.maker(product), added.shape(other)
        if made is None or made.op != "MatMul" or bias is None or len(bias) != 1:
            continue
        weights, rows = made.shape(1), made.shape()
        if weights is None or len(weights) != 2 or rows is None or len(rows) < 3 or bias[0] not in (1, weights[1]):
            continue
        width = weights[0]
        if not isinstance(width, int) or width < 1 or added.elem_type(other) not in _FLOATS:
            continue
        if call.space.tensor(made.input(1)) is None or not added.alone(product):
            continue
        before = made.maker()
        reshaped = before is not None and before.op == "Reshape" and made.alone() and before.ints(1) is not None
        value = before.input(0) if before is not None and reshaped else made.input(0)
        flat = call.emit("Reshape", [value, call.constant(tensors.int64s([-1, width]))])
        layer = call.emit("Gemm", [flat, made.input(1), added.input(other)])
        call.read(layer, call.constant(tensors.int64s(shape)) if shape != call.ints(1) else call.input(1))
        call.close("may add the bias before summing")
        return EDITED
    return None


def _target_shape(call: Call) -> list[int] | None:
    """The shape that a Reshape makes, without taking a dimension from what it is given."""
    shape = call.ints(1)
    if shape is not None and 0 not in shape:
        return shape
    shape_values.follow(call)
    made = call.shape_of(call.output)
    return None if made is None else dimensions.reshape_target(made, ())

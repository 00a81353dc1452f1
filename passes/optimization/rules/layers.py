"""Linear layers: what is done to all that a layer makes is done to its weights."""

from __future__ import annotations

from typing import Any

from opshift.passes.model import tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.says import says
from opshift.passes.simplification import dimensions
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule
from opshift.passes.simplification.rules.identities import keeps_shape, splat
from opshift.passes.simplification.workspace import GROWTH

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


@says("Merged a multiplication into the weights and bias of the operator before it")
@rule("Mul", "Div", close=True)
def scale_in_layer(call: Call) -> Outcome:
    for value, other in ((0, 1), (1, 0)) if call.op == "Mul" else ((0, 1),):
        held, made = splat(call, other), call.maker(value)
        if made is None or held is None or held.dtype.kind != "f" or not held or not np.isfinite(held):
            continue
        if not call.alone(value) or not keeps_shape(call, value, other):
            return None
        factor = float(held) if call.op == "Mul" else 1 / float(held)
        if made.op == "Add":
            return _scale_sum(call, made, factor)
        return _scale(call, made, [None, factor, factor]) if made.op in ("Gemm", "MatMul") else None
    return None


@says("Merged a multiplication into the weights of the operator after it")
@rule("Conv", "ConvTranspose", "Gemm", "MatMul", close=True)
def scale_before_layer(call: Call) -> Outcome:
    made = call.maker()
    if made is None or made.op not in ("Mul", "Div") or not call.alone():
        return None
    for value, other in ((0, 1), (1, 0)) if made.op == "Mul" else ((0, 1),):
        held = splat(made, other)
        if held is None or held.dtype.kind != "f" or not held or not np.isfinite(held):
            continue
        factor = float(held) if made.op == "Mul" else 1 / float(held)
        weights = _scale_constant(call, 1, factor) if keeps_shape(made, value, other) else None
        if weights is None:
            return None
        call.read(made.input(value), call.constant(weights, call.input(1)), *call.inputs[2:])
        call.close("multiplies the weights instead of the data")
        return EDITED
    return None


def _scale_sum(call: Call, added: Call, factor: float) -> Outcome:
    for product, bias in ((0, 1), (1, 0)):
        made = added.maker(product)
        if made is None or made.op != "MatMul" or not added.alone(product):
            continue
        weights, summand = _scale_constant(made, 1, factor), _scale_constant(added, bias, factor)
        if weights is None or summand is None:
            return None
        product_name = call.emit("MatMul", [made.input(0), call.constant(weights, made.input(1))])
        names = [product_name, call.constant(summand, added.input(bias))]
        return _become(call, added, names if product == 0 else names[::-1])
    return None


def _scale(call: Call, made: Call, factors: list[float | None]) -> Outcome:
    names = list(made.proto.input)
    found = {}
    for index, factor in enumerate(factors[: len(names)]):
        if factor is not None and names[index]:
            found[index] = _scale_constant(made, index, factor)
    if not found or any(tensor is None for tensor in found.values()):
        return None
    for index, tensor in found.items():
        if tensor is not None:
            names[index] = call.constant(tensor, names[index])
    return _become(call, made, names)


def _scale_constant(call: Call, index: int, factor: float) -> TensorProto | None:
    """Multiply a float constant; None if it is large and used elsewhere, or if products overflow or vanish."""
    import onnx.numpy_helper

    held = call.array(index)
    if held is None or held.dtype.kind != "f":
        return None
    if held.nbytes > GROWTH and not call.space.whole.check_uses(call.input(index), 1):
        return None
    with np.errstate(all="ignore"):  # what makes no number is looked at
        number = held.dtype.type(factor)
        exact = float(number) == factor  # then one rounding is all there is
        scaled: Any = held * number if exact else (held.astype(np.float64) * factor).astype(held.dtype)
    tiny = np.finfo(held.dtype).tiny
    lost = (np.abs(scaled) < tiny) & (np.abs(held) >= 2 * tiny)  # trained weights hold many that are smaller
    if not np.isfinite(scaled).all() or lost.any():
        return None
    return onnx.numpy_helper.from_array(scaled)


def _become(call: Call, made: Call, names: list[str]) -> Outcome:
    """Let the multiplication do what the node in front of it does, with other constants."""
    call.proto.op_type = made.op
    del call.proto.attribute[:]
    call.proto.attribute.extend(made.proto.attribute)
    call.read(*names)
    call.close("multiplies the weights and the bias instead of the result")
    return EDITED


@says("Merged Reshape, MatMul and Add into Gemm")
@rule("Add", since=11, close=True)
def multiply_reshaped_rows(call: Call) -> Outcome:
    for product, other in ((0, 1), (1, 0)):
        made = call.maker_if("MatMul", product)
        before = made.maker_if("Reshape") if made is not None else None
        bias = call.shape(other) if before is not None else None
        if made is None or before is None or bias is None or len(bias) != 1:
            continue
        weights, rows = made.shape(1), made.shape()
        if weights is None or len(weights) != 2 or rows is None or len(rows) < 3 or bias[0] not in (1, weights[1]):
            continue
        width, shape = weights[0], dimensions.reshape_target([*rows[:-1], weights[1]], ())
        if not isinstance(width, int) or width < 1 or shape is None or call.elem_type(other) not in _FLOATS:
            continue
        if call.space.tensor(made.input(1)) is None or not call.alone(product) or not made.alone():
            continue
        if (added := splat(call, other)) is not None and not added:
            continue  # which goes for itself
        flat = call.emit("Reshape", [before.input(0), call.constant(tensors.int64s([-1, width]))])
        layer = call.emit("Gemm", [flat, made.input(1), call.input(other)])
        call.proto.op_type = "Reshape"
        call.read(layer, call.constant(tensors.int64s(shape)))
        call.close("may add the bias before summing")
        return EDITED
    return None

"""QuantizeLinear and DequantizeLinear where they are to be expanded, of any type, per tensor, axis or block."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.passes.operators.quantization.quantization import HALVES, RANGES, SCALE, ZERO, X, spelled, spread
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto

NARROW = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
LIMITS = {ELEMENT_TYPES[f"tensor({name})"]: ends for name, ends in NARROW.items() if f"tensor({name})" in ELEMENT_TYPES}
LIMITS |= RANGES


@says("(x - zero_point) * scale in float32; the difference of int32 in its own type")
def scaled_difference(node: Node) -> str:
    build, kind, of_scale = node.build, node.elem_type(X), node.elem_type(SCALE)
    out = node.attributes.get("output_dtype", 0) or of_scale
    if out in HALVES and kind in (T.INT16, T.UINT16, T.INT32):
        node.close("multiplied in float32 and rounded to the type of the scale")
    x, wide = node.input(X), T.INT32 if kind == T.INT32 else T.FLOAT
    if node.input(ZERO):
        x = build.Sub(recast(build, x, kind, wide), _held_as(node, ZERO, wide))
        kind = wide
    y = build.Mul(recast(build, x, kind, T.FLOAT), _held_as(node, SCALE, T.FLOAT))
    return recast(build, y, T.FLOAT, out)


@says("saturate(round(x / scale) + zero_point), where floats are not rounded before they are cast")
def rounded_quotient(node: Node) -> str:
    build, of_scale = node.build, node.elem_type(SCALE)
    kind = node.elem_type(ZERO) if node.input(ZERO) else node.attributes.get("output_dtype", 0) or T.UINT8
    precision = node.attributes.get("precision", 0) or (of_scale if of_scale in HALVES else T.FLOAT)
    if precision not in (T.FLOAT, *HALVES):
        raise CannotConvert(
            node, f"precision is {spelled(precision)}; float32, float16 and bfloat16 could be expressed"
        )
    x = recast(build, node.input(X), node.elem_type(X), precision)
    value = recast(build, build.Div(x, _held_as(node, SCALE, precision)), precision, T.FLOAT)
    if kind not in LIMITS:
        value = build.Add(value, _held_as(node, ZERO, T.FLOAT)) if _shifts(node) else value
        return str(build.Cast(value, to=kind, saturate=node.attributes.get("saturate")))
    value = build.Round(value)
    value = build.Add(value, _held_as(node, ZERO, T.FLOAT)) if _shifts(node) else value
    lowest, highest = (build.constant(float(limit), T.FLOAT) for limit in LIMITS[kind])
    return str(build.Cast(build.Clip(value, lowest, highest), to=kind))


def _shifts(node: Node) -> bool:
    """Whether there is a zero point that may be another than 0."""
    held = node.scope.array(node.input(ZERO)) if node.input(ZERO) else None
    return bool(node.input(ZERO)) and (held is None or bool(held.astype("float32").any()))


def _held_as(node: Node, index: int, to: int) -> str:
    """A scale or zero point in another type, shaped to broadcast against x; a constant is written so."""
    held, kind = node.scope.array(node.input(index)), node.elem_type(index)
    if held is None or held.size > tensors.SMALL:
        return spread(node, recast(node.build, node.input(index), kind, to))
    held, axis, block = held.astype("float32"), node.attributes.get("axis", 1), node.attributes.get("block_size", 0)
    if held.ndim == 0:
        return node.build.constant(held, to)
    rank, dims = node.rank(X), node.scope.shape(node.input(X)) or []
    if not rank:
        return node.build.constant(held.reshape(()), to)
    size = dims[axis] if -rank <= axis < rank else None
    if held.ndim == 1:
        return node.build.constant(held.reshape([-1] + [1] * (rank - axis % rank - 1)), to)
    if not block or not isinstance(size, int):
        return spread(node, node.build.constant(held, to))
    return node.build.constant(held.take(np.arange(size) // block, axis=axis), to)


defined("DequantizeLinear", scaled_difference, opset=28)
defined("QuantizeLinear", rounded_quotient, opset=28)

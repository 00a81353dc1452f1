"""Biases of operators on integers: int32 numbers in the scale of the products that they are added to."""

from __future__ import annotations

from typing import Any, NamedTuple

from opshift.passes.fusion.quantization.operands import Operands, Stays
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.builder import Builder

T = TensorProto
Array = Any
_LITTLE = 1 / 16
"""Of a step of the result, which is rounded by half a step anyway: by how much a bias may move where it is rounded."""
_MOST = 2**30
"""The largest number of a bias, which leaves room for the products: sums of floats do not wrap around."""
_ROUNDED = "rounds its bias to the scale of the products, by 1/16 of a step at most"


class Scales(NamedTuple):
    """The scales of both operands and of the result, empty where that is not quantized; and what products are times."""

    x: str
    w: str
    result: str
    factor: float = 1.0


def int32_bias(of: Operands, build: Builder, name: str, scales: Scales) -> tuple[str, str]:
    """A bias in int32, and what is to be said of it.

    One that is held otherwise is rounded, where that moves the result by a small part of a step.

    Raises:
        Stays: it would be moved by more, leaves no room for the products, or only the run tells.
    """
    found = of.find_dequantized(name)
    whole = found is not None and of.scope.elem_type(found.values) == T.INT32 and _is_zero(of, found.zero_point)
    if found is not None and whole and _is_product(of, found.scale, scales):
        numbers = of.scope.array(found.values)
        if numbers is not None and np.abs(numbers.astype(np.float64)).max(initial=0.0) > _MOST:
            raise Stays("its bias leaves no room for the products in int32")
        return found.values, ""
    return _round(of, build, name, scales)


def _round(of: Operands, build: Builder, name: str, scales: Scales) -> tuple[str, str]:
    held, product, step = _bias_numbers(of, name), _product(of, scales), of.number(scales.result)
    if held is None or held.ndim != 1 or product is None or step is None:
        raise Stays("its bias is not int32 in the scale of the products")
    with np.errstate(all="ignore"):
        numbers = np.rint(held / product.astype(np.float64))
        moved = np.abs(numbers * product - held).max(initial=0.0) / abs(step)
        if not moved <= _LITTLE or not np.abs(numbers).max(initial=0.0) <= _MOST:
            why = (
                f"its bias would be rounded by {moved:.2g} steps of the result"
                if moved > _LITTLE
                else "its bias does not fit int32"
            )
            raise Stays(why, supported="an int32 bias in the scale of the products")
    return build.constant(numbers.astype(np.int32), T.INT32, "bias"), _ROUNDED if moved else ""


def _is_zero(of: Operands, zero_point: str) -> bool:
    held = of.scope.array(zero_point) if zero_point else np.zeros(1)
    return held is not None and not held.any()


def _is_product(of: Operands, name: str, scales: Scales) -> bool:
    """Whether a scale is that of the products: as a constant, or computed of both, which may be reshaped for it."""
    made, own, product = of.maker_if(name, "Mul"), of.scope.array(name), _product(of, scales)
    if own is not None and product is not None:
        return own.size in (1, product.size) and bool((np.ravel(own) == product).all())
    factors = sorted(map(of.bare, (scales.x, scales.w)))
    return scales.factor == 1.0 and made is not None and sorted(map(of.bare, made.input)) == factors


def _product(of: Operands, scales: Scales) -> Array | None:
    """What products are counted in, a number for each channel or one for all; None if only the run tells."""
    x, w = of.scope.array(scales.x), of.scope.array(scales.w)
    if x is None or w is None:
        return None
    product = np.multiply(np.ravel(x), np.ravel(w), dtype=np.float32)
    return np.multiply(product, np.float32(scales.factor), dtype=np.float32)


def _bias_numbers(of: Operands, name: str) -> Array | None:
    """The numbers of a constant bias, in floats or dequantized."""
    found = of.find_dequantized(name)
    if found is None:
        held = of.scope.array(name)
        return held if held is not None and held.dtype == np.float32 else None
    values, scale = of.scope.array(found.values), of.scope.array(found.scale)
    zero = of.scope.array(found.zero_point) if found.zero_point else np.zeros(1)
    if values is None or scale is None or zero is None:
        return None
    return (values.astype(np.float64) - np.ravel(zero)) * np.ravel(scale)

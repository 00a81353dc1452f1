"""Pow, whose exponent had the type of its base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.broadcast import LEGACY
from opshift.passes.operators.shared.recipes import BFLOAT16, carrier_casts
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, same
from opshift.passes.rewrite.says import says

if TYPE_CHECKING:
    import numpy as np

T = TensorProto
# The exponent types whose every value a base type holds.
_BYTES: set[int] = {T.INT8, T.UINT8}
_WORDS = _BYTES | {T.INT16, T.UINT16, T.FLOAT16}
HOLDS: dict[int, set[int]] = {
    T.FLOAT16: _BYTES | {T.FLOAT16},
    T.FLOAT: _WORDS | {T.FLOAT},
    T.DOUBLE: _WORDS | {T.FLOAT, T.INT32, T.UINT32, T.DOUBLE},
}
LONGEST = 64  # a longer product overflows for every integer but 0, 1 and -1


@says("Cast base and exponent of Pow to one type")
def power_of_one_type(node: Node) -> Replacement:
    base, exponent = node.elem_type(0), node.elem_type(1)
    if base == exponent and base in HOLDS:
        return None
    held = node.scope.array(node.input(1))
    if base not in HOLDS:
        return _integer_power(node, base, held)
    if held is not None and _holds(base, held):
        node.set_input(1, node.build.constant(held, base, hint="exponent"))
    elif exponent in HOLDS[base]:
        node.set_input(1, node.build.Cast(node.input(1), to=base))
    else:
        return _through(node, T.FLOAT if exponent in HOLDS[T.FLOAT] and base == T.FLOAT16 else T.DOUBLE)
    return None


def _holds(base: int, held: np.ndarray[Any, Any]) -> bool:
    if held.size > tensors.SMALL:
        return False
    cast = tensors.array(tensors.tensor(held, base))
    return cast is not None and all(float(c) == v for c, v in zip(cast.flat, held.flat, strict=True))


def _through(node: Node, wide: int) -> str:
    node.close("computes the power in a type that holds both")
    build = node.build
    power = build.Pow(*(build.Cast(name, to=wide) for name in node.inputs))
    return str(build.Cast(power, to=node.elem_type()))


def _integer_power(node: Node, base: int, held: np.ndarray[Any, Any] | None) -> str:
    """A product of the base with itself for a small constant exponent; double holds others up to 2^53."""
    rank = len(node.scope.shape(node.input(0)) or [])
    times = held.item() if held is not None and held.size == 1 and held.ndim <= rank else None
    if times is not None and times in range(LONGEST + 1):
        return _multiply(node, base, int(times))
    return _through(node, T.DOUBLE)


def _multiply(node: Node, base: int, times: int) -> str:
    """By squaring: the factors x^1, x^2, x^4, ... whose exponents add up to `times`."""
    build, square, product = node.build, node.input(0), ""
    if not times:
        return str(build.Add(build.Mul(square, build.constant(0, base)), build.constant(1, base)))
    while times:
        if times & 1:
            product = build.Mul(product, square) if product else square
        times >>= 1
        square = build.Mul(square, square) if times else square
    return product


changed("Pow", 7, LEGACY)
changed("Pow", 12, Pair(down=power_of_one_type))
same("Pow", 13, "only the text and bfloat16 changed")
changed("Pow", 15, Pair(down=carrier_casts(BFLOAT16, variable="T1")))

"""Arithmetic of one and two operands: broadcasting came (7), integers (6) and small ones (14)."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.broadcast import LEGACY
from opshift.passes.operators.shared.carriers import SMALL_INTEGERS
from opshift.passes.operators.shared.recipes import carrier_casts, recast, without_hint
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined, same
from opshift.passes.rewrite.says import says

T = TensorProto
FLOATS = (T.FLOAT16, T.FLOAT, T.DOUBLE)
IN_DOUBLE: dict[int, int] = dict.fromkeys((T.INT8, T.INT16, T.INT32, T.UINT8, T.UINT16, T.UINT32), T.DOUBLE)
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32, T.UINT64)


@says("Computed integers of up to 32 bits as double")
def in_double(node: Node) -> Replacement:
    elem_type = node.elem_type()
    if node.op_type == "Abs" and elem_type in UNSIGNED:
        return node.input(0)
    if node.op_type in ("Add", "Mul", "Sub") and elem_type in (T.INT32, T.UINT32):
        return _modulo(node, elem_type)
    return carrier_casts(IN_DOUBLE, why="integers are computed in double, where an overflow does not wrap around")(node)


def _modulo(node: Node, elem_type: int) -> str:
    """Modulo 2^32, in the range of the type."""
    build, (a, b) = node.build, (node.build.Cast(name, to=T.DOUBLE) for name in node.inputs)
    if node.op_type != "Mul" or any(_is_small(node, index) for index in (0, 1)):
        result = build.again(node.proto, [a, b])
    else:
        high, low = _split_bits(build, b, 16)
        _, carry = _split_bits(build, build.again(node.proto, [a, high]), 16)
        result = build.Add(_times(build, carry, 2.0**16), build.again(node.proto, [a, low]))
    return str(build.Cast(_split_bits(build, result, 32, around_zero=elem_type == T.INT32)[1], to=elem_type))


def _is_small(node: Node, index: int) -> bool:
    """Whether a factor is known to have products of less than 53 bits with 32 bits."""
    held = node.scope.array(node.input(index))
    return held is not None and bool((abs(held.astype("float64")) <= 2**21).all())


def _split_bits(build: Builder, x: str, bits: int, *, around_zero: bool = False) -> tuple[str, str]:
    """x // 2^bits and what is left of integers in double, from 0 up or as much below as above."""
    high = _times(build, x, 2.0**-bits)
    if around_zero:
        high = str(build.Add(high, build.constant(0.5, T.DOUBLE), broadcast=1))
    high = str(build.Floor(high))
    return high, str(build.Sub(x, _times(build, high, 2.0**bits)))


def _times(build: Builder, x: str, factor: float) -> str:
    return str(build.Mul(x, build.constant(factor, T.DOUBLE), broadcast=1))


@says("Replaced Sign by (x > 0) - (x < 0), NaN where x is NaN")
def sign_of_comparisons(node: Node) -> str:
    build, elem_type, x = node.build, node.elem_type(), node.input(0)
    if elem_type in UNSIGNED:
        return str(build.Cast(build.Cast(x, to=T.BOOL), to=elem_type))
    wide = elem_type if elem_type in FLOATS else T.DOUBLE
    x = recast(build, x, elem_type, wide)
    zero = build.constant(0.0, wide)
    above, below = (build.Cast(build.emit(op, [x, zero]), to=wide) for op in ("Greater", "Less"))
    sign = build.Sub(above, below)
    if elem_type in FLOATS:
        sign = build.Add(sign, build.Mul(build.Tanh(x), zero))  # 0, but NaN where x is
    return recast(build, sign, wide, elem_type)


@says("Replaced Abs by Where(x > 0, x, 0 - x)")
def subtracted_where_not_positive(node: Node) -> str:
    build, x = node.build, node.input(0)
    zero = build.constant(0, node.elem_type())
    return str(build.Where(build.Greater(x, zero), x, build.Sub(zero, x)))


@says("Replaced Neg by x * -1")
def times_minus_one(node: Node) -> str:
    return str(node.build.Mul(node.input(0), node.build.constant(-1, node.elem_type())))


@says("Replaced Reciprocal by 1 / x")
def one_divided(node: Node) -> str:
    return str(node.build.Div(node.build.constant(1, node.elem_type()), node.input(0)))


WRAPPING = Pair(down=carrier_casts(dict.fromkeys(SMALL_INTEGERS, T.INT32)))  # modulo 2^n, as the Cast back is
BINARY = ["Add", "Div", "Mul", "Sub"]

changed(["Abs", "Neg", *BINARY], 6, Pair(up=without_hint, down=in_double))
changed("Reciprocal", 6, Pair(up=without_hint))
changed(BINARY, 7, LEGACY)
changed("Sign", 9, Pair(down=sign_of_comparisons))
changed(BINARY, 14, WRAPPING)
same("Abs", 13, "only the text and bfloat16 changed")
defined("Abs", subtracted_where_not_positive, opset=16)
defined("Neg", times_minus_one, opset=14)
defined("Reciprocal", one_divided, opset=13)

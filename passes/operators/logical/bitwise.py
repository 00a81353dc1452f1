"""Operators on bits: integers are taken apart into bits with Div and Mod before they existed (11, 18)."""

from __future__ import annotations

from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto
LOGIC = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}
WIDENED: dict[int, int] = {T.INT8: T.INT32, T.INT16: T.INT32, T.UINT8: T.UINT32, T.UINT16: T.UINT32}
UNSIGNED: dict[int, int] = {T.INT8: T.UINT8, T.INT16: T.UINT16, T.INT32: T.UINT32, T.INT64: T.UINT64}
BITS: dict[int, int] = {
    **dict.fromkeys((T.INT8, T.UINT8), 8),
    **dict.fromkeys((T.INT16, T.UINT16), 16),
    **dict.fromkeys((T.INT32, T.UINT32), 32),
    **dict.fromkeys((T.INT64, T.UINT64), 64),
}


@says("Replaced BitwiseNot by subtracting from -1, or from the largest unsigned number")
def invert_by_subtraction(node: Node) -> str:
    elem_type = node.elem_type()
    ones = -1 if elem_type in UNSIGNED else 2 ** BITS[elem_type] - 1
    return str(node.build.Sub(node.build.constant(ones, elem_type), node.input(0)))


@says("Replaced the bitwise operator by logic on single bits along a new axis")
def bit_by_bit(node: Node) -> str:
    """Of 64 bits, the two halves are: sums of more than 53 are not exact everywhere."""
    build, elem_type = node.build, node.elem_type()
    unsigned = UNSIGNED.get(elem_type, elem_type)
    operands = [recast(build, name, elem_type, unsigned) for name in node.inputs]
    if BITS[unsigned] == 64:
        half = build.constant(2**32, unsigned)
        high, low = ([build.emit(op, [name, half]) for name in operands] for op in ("Div", "Mod"))
        parts = [recast(build, _combine(node, part, unsigned, 32), T.INT64, unsigned) for part in (high, low)]
        result = build.Add(build.Mul(parts[0], half), parts[1])
    else:
        result = recast(build, _combine(node, operands, unsigned, BITS[unsigned]), T.INT64, unsigned)
    return recast(build, result, unsigned, elem_type)


def _combine(node: Node, operands: list[str], elem_type: int, bits: int) -> str:
    """int64: the operands' bits, each of which is worth 2**k at place k of the last axis, combined and summed.

    Where no rank tells the number of that axis, a product with a matrix sums over it, exact in double for 32 bits.
    """
    build = node.build
    shapes = [node.scope.shape(name) for name in node.inputs]
    ranks = [len(dims) for dims in shapes if dims is not None]
    known = len(ranks) == len(shapes)
    worth = build.constant(tensors.int64s([2**k for k in range(bits)]))
    taken = []
    for name in operands:
        x = recast(build, name, elem_type, T.INT64)
        column = build.Unsqueeze(x, [-1]) if known else build.Reshape(x, build.Concat(build.Shape(x), [1], axis=0))
        taken.append(build.Cast(build.Mod(build.Div(column, worth), 2), to=T.BOOL))
    kept = build.emit(LOGIC[node.op_type], taken)
    if known:
        return str(build.ReduceSum(build.Mul(build.Cast(kept, to=T.INT64), worth), [max(ranks)], keepdims=0))
    summed = build.MatMul(build.Cast(kept, to=T.DOUBLE), build.constant([[2.0**k] for k in range(bits)], T.DOUBLE))
    shape = build.Slice(build.Shape(summed), [0], [-1])
    return str(build.Cast(build.Reshape(summed, shape), to=T.INT64))


@says("Replaced BitShift by a multiplication or division by 2**y")
def shift_by_arithmetic(node: Node) -> str:
    build, elem_type = node.build, node.elem_type()
    wide, bits = (elem_type if elem_type == T.UINT64 else T.UINT32), BITS[elem_type]
    x, count = (recast(build, name, elem_type, wide) for name in node.inputs)
    powers = build.constant([2**k for k in range(bits)], wide)
    inside = build.Mod(count, build.constant(bits, wide))  # a shift by more had no defined result
    factor = build.Gather(powers, build.Cast(inside, to=T.INT64), axis=0)
    if node.attributes["direction"] == "RIGHT":
        return recast(build, build.Div(x, factor), wide, elem_type)
    shifted = build.Mul(x, factor)
    if wide != elem_type:
        shifted = build.Mod(shifted, build.constant(2**bits, wide))
    return recast(build, shifted, wide, elem_type)


@says("Computed shifts of signed numbers and shifts by the full width, which older opsets leave undefined")
def defined_shift(node: Node) -> Replacement:
    """Unsigned, a shift by all bits leaves 0. To the right, a negative x is shifted as ~x, and inverted back:
    sign = 0 or -1;  ~x or x = (x - sign) * (1 + 2 * sign);  x >> y = (~x or x) >> y * (1 + 2 * sign) + sign
    """
    elem_type, build = node.elem_type(), node.build
    held = node.scope.array(node.input(1))
    short = held is not None and bool(((held >= 0) & (held < BITS[elem_type])).all())
    if short and elem_type not in UNSIGNED:
        return None
    wide = WIDENED.get(elem_type, elem_type)
    unsigned = UNSIGNED.get(wide, wide)
    x, count = (recast(build, name, elem_type, wide) for name in node.inputs)
    count = recast(build, count, wide, unsigned)
    sign = None
    if elem_type in UNSIGNED and node.attributes["direction"] == "RIGHT":
        sign = build.Neg(build.Cast(build.Less(x, build.constant(0, wide)), to=wide))
        factor = build.Add(build.Add(sign, sign), build.constant(1, wide))
        x = build.Mul(build.Sub(x, sign), factor)
    shifted = build.again(node.proto, [recast(build, x, wide, unsigned), count])
    if not short:
        inside = build.Less(count, build.constant(BITS[unsigned], unsigned))
        shifted = build.Mul(shifted, build.Cast(inside, to=unsigned))
    if sign is not None:
        shifted = build.Add(build.Mul(recast(build, shifted, unsigned, wide), factor), sign)
        unsigned = wide
    return recast(build, shifted, unsigned, elem_type)


changed("BitShift", 11, Pair(down=shift_by_arithmetic))
changed("BitShift", 28, Pair(down=defined_shift))
changed(list(LOGIC), 18, Pair(down=bit_by_bit))
changed("BitwiseNot", 18, Pair(down=invert_by_subtraction))

"""GatherPacked and MatMulPacked: weights whose rows are blocks of bytes, numbers beside their scale.

The text names a format by the number that it has among those of GGUF files; how the bytes of each lie was read off what
the kernel makes of them. Formats that look numbers up in books of their own are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.quantization import unpack
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
UNEVEN = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
"""The numbers that 4 bits stand for in the formats of uneven steps."""


@dataclass(frozen=True)
class _Format:
    """How many numbers a block holds, in how many bytes, and how they are read: (..., bytes) to (..., numbers)."""

    size: int
    bytes: int
    read: Callable[[Builder, str], str]


@says("Replaced GatherPacked by Gather of rows and scaling of their blocks")
def gathered_and_unpacked(node: Node) -> str:
    build, size = node.build, node.attributes["K"]
    index, rows = build.Cast(node.input(1), to=T.INT64), build.Shape(node.input(0), start=0, end=1)
    inside = build.And(build.GreaterOrEqual(index, 0), build.Less(index, rows))
    held = build.Gather(node.input(0), build.Where(inside, index, 0), axis=0)
    numbers = _numbers(node, held, node.attributes["packed_type"])
    shape = build.Concat(build.Shape(node.input(1)), [size], axis=0)
    numbers = build.Reshape(numbers, shape, allowzero=1)
    return recast(build, numbers, T.FLOAT, node.attributes.get("output_dtype", T.BFLOAT16))


@says("Replaced MatMulPacked by unpacked and scaled weights, MatMul and the activation")
def product_of_unpacked(node: Node) -> str:
    if node.input(2):
        raise CannotConvert(
            node,
            "global_scale is given, which belongs to a format that opshift cannot read",
            supported="a call without it",
        )
    node.close("sums in another order")
    build, elem_type = node.build, node.elem_type()
    numbers = _numbers(node, node.input(1), node.attributes["packed_type"])
    weights = recast(build, build.Reshape(numbers, [node.attributes["N"], node.attributes["K"]]), T.FLOAT, elem_type)
    y = build.MatMul(node.input(0), build.Transpose(weights, perm=[1, 0]))
    name = node.attributes.get("activation_type", "none")
    if name == "none":
        return str(y)
    if name in ("relu2", "relu_squared"):
        positive = build.Relu(y)
        return str(build.Mul(positive, positive))
    if name != "silu":
        raise CannotConvert(node, f"activation_type={name!r}", supported="none, relu2 and silu")
    wide = recast(build, y, elem_type, T.FLOAT)
    return recast(build, build.Mul(wide, build.Sigmoid(wide)), T.FLOAT, elem_type)


def _numbers(node: Node, rows: str, elem_type: int) -> str:
    """The float32 numbers of rows of bytes, block after block."""
    if elem_type not in FORMATS:
        raise CannotConvert(node, f"packed_type={elem_type}", supported=f"{', '.join(map(str, FORMATS))}")
    build, held = node.build, FORMATS[elem_type]
    count = build.ReduceProd(build.Shape(rows, end=-1), keepdims=1)
    shape = build.Concat(count, [node.attributes["K"] // held.size, held.bytes], axis=0)
    return held.read(build, build.Reshape(rows, shape, allowzero=1))


def _part(build: Builder, x: str, begin: int, end: int) -> str:
    return str(build.Slice(x, [begin], [end], [-1]))


def _float(build: Builder, x: str) -> str:
    return str(build.Cast(x, to=T.FLOAT))


def _from_bytes(exponent: int, mantissa: int) -> Callable[[Builder, str], str]:
    """Bytes of floats, the lowest first, as (..., 1) in float32: no operator reads other bytes as floats below 26."""
    width, half = (1 + exponent + mantissa) // 8, 2 ** (exponent - 1) - 1

    def read(build: Builder, x: str) -> str:
        code = build.Cast(x, to=T.INT64)
        code = build.ReduceSum(
            build.Mul(code, build.constant([256**k for k in range(width)], T.INT64)), [-1], keepdims=1
        )
        rest = build.Mod(code, 2**mantissa)
        power = build.Mod(build.Div(code, 2**mantissa), 2**exponent)
        tiny, special = build.Equal(power, 0), build.Equal(power, 2**exponent - 1)
        whole = _float(build, build.Where(tiny, rest, build.Add(rest, 2**mantissa)))
        steps = [2.0 ** (max(k, 1) - half - mantissa) for k in range(2**exponent - 1)]
        size = build.Mul(whole, build.Gather(build.constant([*steps, float("inf")], T.FLOAT), power))
        missing = build.And(special, build.Greater(rest, 0))
        size = build.Where(missing, build.constant(float("nan"), T.FLOAT), size)
        negative = build.Equal(build.Div(code, 2 ** (exponent + mantissa)), 1)
        return str(build.Where(negative, build.Neg(size), size))

    return read


_HALF = _from_bytes(5, 10)


def _low(build: Builder, x: str, bits: int = 15) -> str:
    return str(build.BitwiseAnd(x, build.constant(bits, T.UINT8)))


def _move(build: Builder, x: str, *by: int) -> str:
    """Bytes shifted to the right: by one number, or by each of several, which stand before the last axis."""
    count = build.constant(by[0] if len(by) == 1 else [[k] for k in by], T.UINT8)
    return str(build.BitShift(x, count, direction="RIGHT"))


def _nibbles(build: Builder, x: str, axis: int = -1) -> str:
    """The lower halves of bytes, and behind them the upper ones."""
    return str(build.Concat(_low(build, x), _move(build, x, 4), axis=axis))


def _to_signed(build: Builder, x: str) -> str:
    """Bytes as numbers from -128 on."""
    turned = build.BitwiseXor(x, build.constant(128, T.UINT8))
    return str(build.Sub(_float(build, turned), build.constant(128.0, T.FLOAT)))


def _less(build: Builder, x: str, middle: float) -> str:
    return str(build.Sub(_float(build, x), build.constant(middle, T.FLOAT)))


def _uneven(build: Builder, x: str) -> str:
    return str(build.Gather(build.constant(UNEVEN, T.FLOAT), build.Cast(x, to=T.INT64)))


def _q4_0(build: Builder, x: str) -> str:
    return str(
        build.Mul(_HALF(build, _part(build, x, 0, 2)), _less(build, _nibbles(build, _part(build, x, 2, 18)), 8.0))
    )


def _iq4_nl(build: Builder, x: str) -> str:
    return str(build.Mul(_HALF(build, _part(build, x, 0, 2)), _uneven(build, _nibbles(build, _part(build, x, 2, 18)))))


def _q5_0(build: Builder, x: str) -> str:
    fifth = build.Mul(unpack(build, _part(build, x, 2, 6), 1), build.constant(16, T.UINT8))
    numbers = build.Add(_nibbles(build, _part(build, x, 6, 22)), fifth)
    return str(build.Mul(_HALF(build, _part(build, x, 0, 2)), _less(build, numbers, 16.0)))


def _q8_0(build: Builder, x: str) -> str:
    return str(build.Mul(_HALF(build, _part(build, x, 0, 2)), _to_signed(build, _part(build, x, 2, 34))))


def _q2_0(build: Builder, x: str) -> str:
    return str(
        build.Mul(_HALF(build, _part(build, x, 0, 2)), _less(build, unpack(build, _part(build, x, 2, 18), 2), 1.0))
    )


def _in(build: Builder, x: str, *shape: int) -> str:
    """The last axis in another shape."""
    return str(build.Reshape(x, [0, 0, *shape]))


def _iq4_xs(build: Builder, x: str) -> str:
    """Eight parts with scales of 6 bits: two of them in bytes 2 and 3, four in bytes 4 to 7."""
    high = _low(build, _move(build, _in(build, _part(build, x, 2, 4), 2, 1, 1), 0, 2, 4, 6), 3)
    low = unpack(build, _part(build, x, 4, 8), 4)
    six = build.Add(low, build.Mul(_in(build, high, 8), build.constant(16, T.UINT8)))
    scales = build.Mul(_HALF(build, _part(build, x, 0, 2)), _less(build, six, 32.0))
    numbers = _uneven(build, _nibbles(build, _in(build, _part(build, x, 8, 136), 8, 16)))
    return str(build.Mul(_in(build, scales, 8, 1), numbers))


def _q5_k(build: Builder, x: str) -> str:
    """Eight parts, each with a scale and an offset of 6 bits in the 12 bytes from 4 on."""
    first, second, third = (_part(build, x, k, k + 4) for k in (4, 8, 12))
    sixteen = build.constant(16, T.UINT8)

    def six(of: str, rest: str) -> str:
        beyond = build.Add(rest, build.Mul(_move(build, of, 6), sixteen))
        return _float(build, build.Concat(_low(build, of, 63), beyond, axis=-1))

    scales = build.Mul(_HALF(build, _part(build, x, 0, 2)), six(first, _low(build, third)))
    offsets = build.Mul(_HALF(build, _part(build, x, 2, 4)), six(second, _move(build, third, 4)))
    fifth = _low(build, _move(build, _in(build, _part(build, x, 16, 48), 1, 32), *range(8)), 1)
    four = _in(build, _nibbles(build, _in(build, _part(build, x, 48, 176), 4, 1, 32), -2), 8, 32)
    numbers = _float(build, build.Add(four, build.Mul(fifth, sixteen)))
    return str(build.Sub(build.Mul(_in(build, scales, 8, 1), numbers), _in(build, offsets, 8, 1)))


def _q6_k(build: Builder, x: str) -> str:
    """Two halves of four parts of 32, of which each 16 have a scale of 8 bits."""
    four = _nibbles(build, _in(build, _part(build, x, 0, 128), 2, 2, 32), -2)
    two = _low(build, _move(build, _in(build, _part(build, x, 128, 192), 2, 1, 32), 0, 2, 4, 6), 3)
    numbers = _less(build, build.Add(four, build.Mul(two, build.constant(16, T.UINT8))), 32.0)
    scales = build.Mul(_HALF(build, _part(build, x, 208, 210)), _to_signed(build, _part(build, x, 192, 208)))
    return str(build.Mul(_in(build, scales, 16, 1), _in(build, numbers, 16, 16)))


FORMATS = {
    0: _Format(1, 4, _from_bytes(8, 23)),
    1: _Format(1, 2, _HALF),
    2: _Format(32, 18, _q4_0),
    6: _Format(32, 22, _q5_0),
    8: _Format(32, 34, _q8_0),
    13: _Format(256, 176, _q5_k),
    14: _Format(256, 210, _q6_k),
    20: _Format(32, 18, _iq4_nl),
    23: _Format(256, 136, _iq4_xs),
    30: _Format(1, 2, _from_bytes(8, 7)),
    42: _Format(64, 18, _q2_0),
}

defined("GatherPacked", gathered_and_unpacked, opset=18, domain=MICROSOFT)
defined("MatMulPacked", product_of_unpacked, opset=18, domain=MICROSOFT)

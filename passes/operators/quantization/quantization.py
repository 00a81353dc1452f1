"""QuantizeLinear and DequantizeLinear: scales came per axis and per block, types and their attributes came.

Going down, a node that uses what the older version lacks becomes its formula, computed in float32:

    dequantized = (x - zero_point) * scale
    quantized = cast(clip(round(x / scale) + zero_point, lowest, highest))
"""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model import schemas
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto
X, SCALE, ZERO = 0, 1, 2  # inputs of both operators

RANGES: dict[int, tuple[int, int]] = {
    T.INT8: (-128, 127),
    T.UINT8: (0, 255),
    T.INT16: (-(2**15), 2**15 - 1),
    T.UINT16: (0, 2**16 - 1),
}
FLOAT8 = (T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ)
HALVES = (T.FLOAT16, T.BFLOAT16)
# What a constant of floats is written in where its own type does not exist: the values are the same. By name, because
# the installed onnx may be too old to know them all.
CARRIERS = {
    ELEMENT_TYPES[f"tensor({narrow})"]: wide
    for narrow, wide in {
        "float6e2m3": T.FLOAT8E4M3FN,
        "float6e3m2": T.FLOAT8E4M3FN,
        "float8e8m0": T.FLOAT,
        "float4e2m1": T.FLOAT8E4M3FN,
        "float8e4m3fn": T.FLOAT,
        "float8e4m3fnuz": T.FLOAT,
        "float8e5m2": T.FLOAT,
        "float8e5m2fnuz": T.FLOAT,
    }.items()
    if f"tensor({narrow})" in ELEMENT_TYPES
}


# --- what both share ----------------------------------------------------------------------------------------


@says("A vector of one scale meant the whole tensor and would mean one axis; it becomes a scalar.")
def scale_of_one_element(node: Node) -> None:
    if node.scope.shape(node.input(SCALE)) == [1]:
        for index in (SCALE, ZERO):
            if node.input(index):
                node.set_input(index, node.build.Reshape(node.input(index), []))


@says("Constants of a type that does not exist there are written in a type that holds the same values.")
def constants_in_carrier_types(node: Node) -> None:
    known = schemas.types_at(node.build.opset)
    for index, name in enumerate(node.inputs):
        kind = node.scope.elem_type(name) if name else 0
        if kind not in CARRIERS or spelled(kind) in known:
            continue
        values = node.scope.array(name)
        if values is None:
            raise CannotConvert(node, f'"{name}" is {spelled(kind)}; a constant of that type could be expressed')
        node.set_input(index, node.build.constant(values.astype("float32"), CARRIERS[kind]))


def spelled(kind: int) -> str:
    """An element type as schemas name it."""
    return next((text for text, value in ELEMENT_TYPES.items() if value == kind), str(kind))


def _blocked(node: Node) -> bool:
    """Whether each scale holds for a block of elements: told by its rank, which is that of x then."""
    dims = node.scope.shape(node.input(SCALE))
    if not node.attributes.get("block_size", 0):
        if dims is not None and len(dims) > 1:
            raise CannotConvert(node, f"a scale of rank {len(dims)} without block_size; one with it could be expressed")
        return False
    return node.rank(SCALE) > 0 and node.rank(SCALE) == node.rank(X)


def spread(node: Node, value: str) -> str:
    """A scale or zero point in a shape that broadcasts against x."""
    dims, axis = node.scope.shape(node.input(SCALE)), node.attributes.get("axis", 1)
    if dims == []:
        return value
    if node.scope.shape(node.input(X)) == []:
        return str(node.build.Reshape(value, []))
    if _blocked(node):
        return _repeated(node, value, axis % node.rank(X))
    behind = -axis - 1 if axis < 0 else max(node.rank(X) - axis - 1, 0)
    return str(node.build.Reshape(value, [-1] + [1] * behind)) if behind else value


def _repeated(node: Node, value: str, axis: int) -> str:
    """Element j along the axis takes the value of block j // block_size; the last block may be short."""
    build, block, shape = node.build, node.attributes["block_size"], node.scope.shape(node.input(X))
    size = shape[axis] if shape is not None else None
    if isinstance(size, int):
        return str(build.Gather(value, [j // block for j in range(size)], axis=axis))
    length = build.Gather(build.Shape(node.input(X)), axis)
    return str(build.Gather(value, build.Div(build.Range(0, length, 1), block), axis=axis))


def _cast(node: Node, value: str, kind: int, to: int) -> str:
    if kind in FLOAT8:  # unlike Cast, this has a form without float8 if the value is constant
        return str(node.build.DequantizeLinear(value, node.build.constant(1.0, T.FLOAT)))
    return value if kind == to else str(node.build.Cast(value, to=to))


# --- DequantizeLinear ---------------------------------------------------------------------------------------


def _dequantize(node: Node) -> str:
    """(x - zero_point) * scale; the difference of integers in int32, where it cannot wrap."""
    build, x, kind, out = node.build, node.input(X), node.elem_type(X), node.elem_type(SCALE)
    if out in HALVES and kind in (T.INT16, T.UINT16, T.INT32):
        node.close("multiplied in float32 and rounded to the type of the scale")
    if node.input(ZERO):
        wide = T.INT32 if kind in (*RANGES, T.INT32) else T.FLOAT
        zero = spread(node, _cast(node, node.input(ZERO), kind, wide))
        x, kind = build.Sub(_cast(node, x, kind, wide), zero), wide
    scale = spread(node, _cast(node, node.input(SCALE), out, T.FLOAT))
    return _cast(node, build.Mul(_cast(node, x, kind, T.FLOAT), scale), T.FLOAT, out)


@says("output_dtype did not exist: the scale is cast to a wider type, or the result to a narrower one.")
def output_type_of_the_scale(node: Node) -> Replacement:
    constants_in_carrier_types(node)
    wanted = node.attributes.pop("output_dtype", 0)
    if not wanted or wanted == (kind := node.elem_type(SCALE)):
        return None
    if kind != T.FLOAT:
        node.set_input(SCALE, node.build.Cast(node.input(SCALE), to=T.FLOAT))
    if wanted == T.FLOAT:
        return None
    node.close("multiplied in float32 and rounded to output_dtype")
    return str(node.build.Cast(node.build.again(node.proto, node.inputs), to=wanted))


@says("Scales of float8e8m0 did not exist; constant ones are written in float32.")
def scale_of_powers_of_two(node: Node) -> None:
    if node.elem_type(SCALE) not in (T.FLOAT, *HALVES) and not node.attributes.get("output_dtype", 0):
        raise CannotConvert(node, "a scale that is no type of output, without output_dtype; one could be expressed")
    constants_in_carrier_types(node)


@says("Scales per block and 16-bit integers did not exist: the formula is written out for them.")
def blocks_dequantized(node: Node) -> Replacement:
    constants_in_carrier_types(node)
    if _blocked(node) or node.elem_type(X) in (T.INT16, T.UINT16):
        return _dequantize(node)
    node.attributes.pop("block_size", 0)
    return None


@says("Scales were float32 and float8 did not exist: computed in float32 and cast to the type of the scale.")
def dequantized_in_float(node: Node) -> Replacement:
    if node.elem_type(X) in FLOAT8:
        constants_in_carrier_types(node)
        return _dequantize(node)
    kind = node.elem_type(SCALE)
    if kind not in HALVES:
        return None
    if node.elem_type(X) == T.INT32:
        node.close("multiplied in float32 and rounded to the type of the scale")
    inputs = node.inputs
    inputs[SCALE] = node.build.Cast(inputs[SCALE], to=T.FLOAT)
    return str(node.build.Cast(node.build.again(node.proto, inputs), to=kind))


@says("Scales per axis did not exist: the formula is written out for them, and axis goes.")
def dequantized_per_axis(node: Node) -> Replacement:
    return None if _one_scale(node) else _dequantize(node)


def _one_scale(node: Node) -> bool:
    """Drop axis where a single scale leaves it without a meaning; False where there may be several."""
    if node.scope.shape(node.input(SCALE)) not in ([], [1]):
        return False
    scale_of_one_element(node)
    node.attributes.pop("axis", 1)
    return True


# --- QuantizeLinear -----------------------------------------------------------------------------------------


def _quantize(node: Node, kind: int) -> str:
    """cast(clip(round(x / scale) + zero_point, lowest, highest)); Round takes halves to even numbers, too."""
    build, value = node.build, node.build.Round(_ratio(node))
    if node.input(ZERO):
        value = build.Add(value, spread(node, build.Cast(node.input(ZERO), to=T.FLOAT)))
    lowest, highest = (build.constant(float(limit), T.FLOAT) for limit in RANGES[kind])
    return str(build.Cast(build.Clip(value, lowest, highest), to=kind))


def _ratio(node: Node) -> str:
    """x / scale in float32."""
    if node.elem_type(X) != T.FLOAT:
        node.close("divided in float32")
    x, scale = (_cast(node, node.input(index), node.elem_type(index), T.FLOAT) for index in (X, SCALE))
    return str(node.build.Div(x, spread(node, scale)))


def _output_type(node: Node) -> int:
    """The type of the zero point, or output_dtype, or uint8; refused where the older version lacks it."""
    kind = node.attributes.get("output_dtype", 0)
    if node.input(ZERO):
        kind = node.elem_type(ZERO)
    older = schemas.schema("", node.op_type, node.build.opset)
    formal = older and older.output(0)
    if kind and formal and spelled(kind) not in formal.types:
        raise CannotConvert(
            node, f"the output is {spelled(kind)}; {', '.join(sorted(formal.types))} could be expressed"
        )
    return int(kind or T.UINT8)


@says("Output types came, named by output_dtype or the zero point; one that is missing there is refused.")
def older_output_type(node: Node) -> None:
    _output_type(node)


@says("x and scale had one type, that of the division: both are cast to `precision` or the scale's type.")
def divided_in_one_type(node: Node) -> None:
    _output_type(node)
    precision = node.attributes.pop("precision", 0) or node.elem_type(SCALE)
    if precision not in (T.FLOAT, T.FLOAT16, T.BFLOAT16, T.INT32):
        raise CannotConvert(
            node, f"precision is {spelled(precision)}; float32, float16 and bfloat16 could be expressed"
        )
    for index in (X, SCALE):
        kind = node.elem_type(index)
        if kind != precision:
            node.set_input(index, _cast(node, node.input(index), kind, precision))


@says("Scales per block and 16-bit integers become a formula, output_dtype the type of a zero point.")
def blocks_quantized(node: Node) -> Replacement:
    kind, blocked = _type_or_wider(node), _blocked(node)
    if kind in (T.INT16, T.UINT16) or (blocked and kind in RANGES):
        return _quantize(node, kind)
    if blocked:
        return _float8_blocks(node, kind)
    node.attributes.pop("block_size", 0)
    node.attributes.pop("output_dtype", 0)
    if not node.input(ZERO) and kind != T.UINT8:
        node.set_input(ZERO, _zeros(node, kind))
    return None


def _type_or_wider(node: Node) -> int:
    """16-bit integers can be cast to; any other output type must be one that the older version has."""
    named = node.elem_type(ZERO) if node.input(ZERO) else node.attributes.get("output_dtype", 0)
    return named if named in (T.INT16, T.UINT16) else _output_type(node)


def _float8_blocks(node: Node, kind: int) -> str:
    """Divided by the repeated scales first, then quantized with the scale 1, which saturates as before."""
    zero = node.scope.array(node.input(ZERO)) if node.input(ZERO) else None
    if node.input(ZERO) and (zero is None or zero.astype("float32").any()):
        raise CannotConvert(node, "blocks of float8 with zero points; a constant 0 could be expressed")
    scalars = [node.build.constant(1.0, T.FLOAT), node.build.constant(0.0, kind)]
    inputs = [_ratio(node), *scalars]
    return str(node.build.again(node.proto, inputs, axis=None, block_size=None, output_dtype=None))


def _zeros(node: Node, kind: int) -> str:
    """Zero points in the shape of the scale."""
    build, dims = node.build, node.scope.shape(node.input(SCALE))
    if dims is None or any(not isinstance(dim, int) for dim in dims):
        return str(build.Cast(build.ConstantOfShape(build.Shape(node.input(SCALE))), to=kind))
    sizes = [dim for dim in dims if isinstance(dim, int)]
    return str(build.constant(T(data_type=kind, dims=sizes, raw_data=bytes(prod(sizes)))))


@says("Scales were float32 and float8 did not exist: x and scale are cast to float32, saturate goes.")
def quantized_from_float(node: Node) -> None:
    _output_type(node)
    kind = node.elem_type(SCALE)
    if kind != T.FLOAT:
        node.close("divided in float32")
        node.set_input(SCALE, node.build.Cast(node.input(SCALE), to=T.FLOAT))
        if kind in HALVES:
            node.set_input(X, node.build.Cast(node.input(X), to=T.FLOAT))
    node.attributes.pop("saturate", 1)


@says("x could be int32 beside a float32 scale; both have one type now, so x is cast to float32.")
def integers_as_float(node: Node) -> None:
    kind = node.scope.elem_type(node.input(X))
    if kind != T.FLOAT:  # what is unknown may be float32, which the cast leaves as it is
        node.close("divided in float32")
        node.set_input(X, node.build.Cast(node.input(X), to=T.FLOAT))


@says("Scales per axis did not exist: the formula is written out for them, and axis goes.")
def quantized_per_axis(node: Node) -> Replacement:
    return None if _one_scale(node) else _quantize(node, _output_type(node))


changed("DequantizeLinear", 13, Pair(up=scale_of_one_element, down=dequantized_per_axis))
changed("DequantizeLinear", 19, Pair(down=dequantized_in_float))
changed("DequantizeLinear", 21, Pair(down=blocks_dequantized))
changed("DequantizeLinear", 23, Pair(down=output_type_of_the_scale))
changed("DequantizeLinear", 24, Pair(down=scale_of_powers_of_two))
changed("DequantizeLinear", 25, Pair(down=constants_in_carrier_types))
changed("DequantizeLinear", 28, Pair(down=constants_in_carrier_types))

changed("QuantizeLinear", 13, Pair(up=scale_of_one_element, down=quantized_per_axis))
changed("QuantizeLinear", 19, Pair(up=integers_as_float, down=quantized_from_float))
changed("QuantizeLinear", 21, Pair(down=blocks_quantized))
changed("QuantizeLinear", 23, Pair(down=divided_in_one_type))
changed("QuantizeLinear", 24, Pair(down=constants_in_carrier_types))
changed("QuantizeLinear", 25, Pair(down=older_output_type))
changed("QuantizeLinear", 28, Pair(down=older_output_type))

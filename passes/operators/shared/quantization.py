"""What QuantizeLinear and DequantizeLinear share: scales and zero points of one element, an axis or a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opshift.passes.errors import CannotConvert
from opshift.passes.model import schemas, tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import ELEMENT_TYPES, Dim, element_name
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
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


@says("Reshaped a scale of one element to a scalar")
def scale_of_one_element(node: Node) -> None:
    scale = node.scope.shape(node.input(SCALE))
    for index in (SCALE, ZERO):
        name = node.input(index)
        beside = scale == [] and name and node.scope.shape(name)  # runtimes take one zero point as a vector, too
        if name and (scale == [1] or beside):
            node.set_input(index, node.build.Reshape(name, []))


# The same for integers, where no type of a result hangs on that of a zero point.
WIDE_INTEGERS = {
    ELEMENT_TYPES[f"tensor({narrow})"]: wide
    for narrow, wide in {"int2": T.INT8, "uint2": T.UINT8, "int4": T.INT8, "uint4": T.UINT8}.items()
    if f"tensor({narrow})" in ELEMENT_TYPES
}


@says("Stored constants of a newer type in a wider type that holds the same values")
def constants_in_carrier_types(node: Node) -> None:
    _carry(node, CARRIERS)


@says("Stored constants of a newer type in a wider type that holds the same values")
def all_constants_in_carrier_types(node: Node) -> None:
    _carry(node, CARRIERS | WIDE_INTEGERS)


def _carry(node: Node, carriers: Mapping[int, int]) -> None:
    known = schemas.types_at(node.build.opset)
    for index, name in enumerate(node.inputs):
        elem_type = node.scope.elem_type(name) if name else 0
        if elem_type not in carriers or spell(elem_type) in known:
            continue
        values = node.scope.array(name)
        if values is None:
            raise CannotConvert(
                node,
                f'"{name}" has type {element_name(elem_type)}, which the older opset lacks, and is not constant',
                supported="a constant of that type",
            )
        node.set_input(index, node.build.constant(values.astype("float32"), carriers[elem_type]))


def spell(elem_type: int) -> str:
    """An element type as schemas name it."""
    return next((text for text, value in ELEMENT_TYPES.items() if value == elem_type), str(elem_type))


def in_blocks(node: Node) -> bool:
    """Whether each scale holds for a block of elements: told by its rank, which is that of x then."""
    dims = node.scope.shape(node.input(SCALE))
    if not node.attributes.get("block_size", 0):
        if dims is not None and len(dims) > 1:
            raise CannotConvert(
                node, f"the scale has rank {len(dims)}, and block_size is missing", supported="block_size"
            )
        return False
    return node.rank(SCALE) > 0 and node.rank(SCALE) == node.rank(X)


def spread(node: Node, value: str) -> str:
    """A scale or zero point in a shape that broadcasts against x."""
    dims, axis = node.scope.shape(node.input(SCALE)), node.attributes.get("axis", 1)
    if dims == []:
        return str(node.build.Reshape(value, [])) if node.scope.shape(value) else value
    if node.scope.shape(node.input(X)) == []:
        return str(node.build.Reshape(value, []))
    if in_blocks(node):
        return _repeat_blocks(node, value, axis % node.rank(X))
    _check_count(node, dims, axis)
    behind = -axis - 1 if axis < 0 else max(node.rank(X) - axis - 1, 0)
    return str(node.build.Reshape(value, [-1] + [1] * behind)) if behind else value


def _check_count(node: Node, scales: Sequence[Dim] | None, axis: int) -> None:
    """Raise `CannotConvert` where there is known not to be one scale for each element of the axis."""
    data = node.scope.shape(node.input(X)) or []
    size = data[axis] if -len(data) <= axis < len(data) else None
    (count,) = scales if scales is not None and len(scales) == 1 else (None,)
    if isinstance(count, int) and isinstance(size, int) and count not in (1, size):
        why = f"{count} scales for an axis of {size} elements; supported: one for each"
        raise CannotConvert(node, why)


def _repeat_blocks(node: Node, value: str, axis: int) -> str:
    """Element j along the axis takes the value of block j // block_size; the last block may be short."""
    build, block, shape = node.build, node.attributes["block_size"], node.scope.shape(node.input(X))
    size = shape[axis] if shape is not None else None
    if isinstance(size, int):
        return str(build.Gather(value, [j // block for j in range(size)], axis=axis))
    length = build.Gather(build.Shape(node.input(X)), axis)
    return str(build.Gather(value, build.Div(build.Range(0, length, 1), block), axis=axis))


def widen(node: Node, value: str, elem_type: int, to: int) -> str:
    if elem_type in FLOAT8:  # unlike Cast, this has a form without float8 if the value is constant
        return str(node.build.DequantizeLinear(value, node.build.constant(1.0, T.FLOAT)))
    return value if elem_type == to else str(node.build.Cast(value, to=to))


def cast_parameter(node: Node, index: int, to: int) -> str:
    """A scale or zero point in another type, shaped to broadcast against x; a constant is written so."""
    held, elem_type = node.scope.array(node.input(index)), node.elem_type(index)
    if held is None or held.size > tensors.SMALL:
        return spread(node, recast(node.build, node.input(index), elem_type, to))
    held, axis, block = held.astype("float32"), node.attributes.get("axis", 1), node.attributes.get("block_size", 0)
    if held.ndim == 0:
        return node.build.constant(held, to)
    rank, dims = node.rank(X), node.scope.shape(node.input(X)) or []
    if not rank:
        return node.build.constant(held.reshape(()), to)
    size = dims[axis] if -rank <= axis < rank else None
    if held.ndim == 1 and not (block and rank == 1):
        _check_count(node, list(held.shape), axis)
        return node.build.constant(held.reshape([-1] + [1] * (rank - axis % rank - 1)), to)
    if not block or not isinstance(size, int):
        return spread(node, node.build.constant(held, to))
    if held.ndim != rank or held.shape[axis] != -(-size // block):
        why = f"shape {list(held.shape)} for blocks of {block} in {size} elements; supported: one for each"
        raise CannotConvert(node, why)
    return node.build.constant(held.take(np.arange(size) // block, axis=axis), to)


def drop_axis_of_one_scale(node: Node) -> bool:
    """Drop axis where a single scale leaves it without a meaning; False where there may be several."""
    if node.scope.shape(node.input(SCALE)) not in ([], [1]):
        return False
    scale_of_one_element(node)
    node.attributes.pop("axis", 1)
    return True


def checked_bits(node: Node, name: str = "bits") -> int:
    """How many bits an integer has."""
    bits = int(node.attributes.get(name, 4))
    if bits not in (2, 4, 8):
        raise CannotConvert(node, f"{name}={bits}", supported="2, 4 and 8")
    return bits


def unpack(build: Builder, data: str, bits: int) -> str:
    """Bytes as integers of uint8, those of one byte side by side on the last axis, the lowest bits first."""
    if bits == 8:
        return data
    shifts = build.constant(list(range(0, 8, bits)), T.UINT8)
    moved = build.BitShift(build.Unsqueeze(data, [-1]), shifts, direction="RIGHT")
    apart = build.BitwiseAnd(moved, build.constant(2**bits - 1, T.UINT8))
    *dims, last = build.scope.shape(data) or [None]
    known = last * 8 // bits if isinstance(last, int) else None
    many = build.Mul(build.Shape(data, start=-1), [8 // bits]) if known is None else [known]
    return build.set_type(
        build.Reshape(apart, build.Concat(build.Shape(data, end=-1), many, axis=0)), T.UINT8, [*dims, known]
    )


def first_of(build: Builder, values: str, count: Size) -> str:
    """The first so many on the last axis: rows of integers are padded to whole bytes."""
    return str(build.Slice(values, [0], flat_indices.vector(build, [count]), [-1]))

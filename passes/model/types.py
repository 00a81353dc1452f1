"""Types of values: element types by name and number, shapes, and what tells them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from opshift.passes.model.messages import TensorProto, TypeProto

if TYPE_CHECKING:
    from onnx import TensorShapeProto

Dim = int | str | None
_NAMELESS = ("", "?", "None", "-1")
"""What exporters write for a size that has no name: two of these need not be one size."""


class ElementType(NamedTuple):
    """An element type: its name in type constraints, how wide a value is, the IR version that introduced it, its code.

    The `code` is that of values as raw data hold them, to `struct`, which does not know all.
    """

    name: str
    bits: int
    ir_version: int
    code: str


_SINCE = {
    **dict.fromkeys(["BFLOAT16"], 4),
    **dict.fromkeys(["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"], 9),
    **dict.fromkeys(["UINT4", "INT4"], 10),
    "FLOAT4E2M1": 11,
    "FLOAT8E8M0": 12,
    **dict.fromkeys(["UINT2", "INT2"], 13),
    **dict.fromkeys(["FLOAT6E2M3", "FLOAT6E3M2"], 14),
}
_CODES = {
    **{"FLOAT": "f", "DOUBLE": "d", "FLOAT16": "e", "BOOL": "?"},
    **{
        "INT64": "q",
        "INT32": "i",
        "INT16": "h",
        "INT8": "b",
        "UINT64": "Q",
        "UINT32": "I",
        "UINT16": "H",
        "UINT8": "B",
    },
}


def _bits(name: str) -> int:
    """How wide a value is: the first number in its type's name but for two."""
    digits = re.search(r"\d+", name)
    return int(digits.group()) if digits else {"DOUBLE": 64, "FLOAT": 32}.get(name, 8)


_LATER = {"UINT4": 21, "INT4": 22, "FLOAT4E2M1": 23, "FLOAT8E8M0": 24, "UINT2": 25, "INT2": 26}
_LATER |= {"FLOAT6E2M3": 27, "FLOAT6E3M2": 28}  # which an older onnx has no names for; a model may hold them
NUMBERS: dict[str, int] = dict(sorted((_LATER | dict(TensorProto.DataType.items())).items(), key=lambda item: item[1]))
"""The number of each element type by the name that messages have for it."""

HOLDING_SIZES = frozenset([TensorProto.INT32, TensorProto.INT64, TensorProto.UINT64, TensorProto.DOUBLE])
"""The types that hold every size, as no axis is longer than an int32."""
ELEMENTS: dict[int, ElementType] = {
    value: ElementType(name.lower(), _bits(name), _SINCE.get(name, 0), _CODES.get(name, ""))
    for name, value in NUMBERS.items()
}
"""What is known of each element type, by its number."""

ELEMENT_TYPES = {f"tensor({element.name})": value for value, element in ELEMENTS.items()}
"""The number of each, by the type of its tensors as the schemas spell it."""


def number_name(elem_type: int) -> str:
    """The name that messages have for an element type, such as `FLOAT`; raises `ValueError` for none."""
    if elem_type not in ELEMENTS:
        raise ValueError(f"there is no element type {elem_type}")
    return ELEMENTS[elem_type].name.upper()


def tensor_type(elem_type: int, dims: Sequence[Dim] | None = None) -> TypeProto:
    """A tensor type; without `dims` its rank is unknown."""
    made = TypeProto()
    made.tensor_type.elem_type = elem_type
    if dims is not None:
        made.tensor_type.shape.SetInParent()
        for value in dims:
            dim = made.tensor_type.shape.dim.add()
            if isinstance(value, str):
                dim.dim_param = value
            elif value is not None:
                dim.dim_value = value
    return made


def dims_of(value_type: TypeProto) -> list[Dim]:
    return [dim.dim_value if dim.dim_value > 0 else _dim(dim) for dim in value_type.tensor_type.shape.dim]


def _dim(dim: TensorShapeProto.Dimension) -> Dim:
    return int(dim.dim_value) if is_fixed(dim) else symbol(dim) or None


def is_fixed(dim: TensorShapeProto.Dimension) -> bool:
    """Whether a dimension has a size; exporters write -1 for one that it does not have."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def symbol(dim: TensorShapeProto.Dimension) -> str:
    """The name of a size that is open; empty where it has none, for which exporters write a question mark, too."""
    return "" if is_fixed(dim) or not is_name(dim.dim_param) else dim.dim_param


def is_name(symbol: str) -> bool:
    """Whether what a size is called tells it from others."""
    return symbol not in _NAMELESS


def elem_type_of(value_type: TypeProto) -> int:
    """The element type of a (sparse) tensor type; 0 for unknown types and for other kinds."""
    which = value_type.WhichOneof("value")
    if which == "tensor_type":
        return value_type.tensor_type.elem_type
    if which == "sparse_tensor_type":
        return value_type.sparse_tensor_type.elem_type
    return 0


def element_name(elem_type: int) -> str:
    """An element type as the schemas spell it, such as `float16`; the number of an unknown one."""
    return ELEMENTS[elem_type].name if elem_type in ELEMENTS else str(elem_type)


@cache
def tensor_text(elem_type: int) -> str:
    """The type of a tensor as the schemas' type constraints spell it."""
    return f"tensor({element_name(elem_type)})"


def plain_type(kind: str) -> str:
    """Write a type without the `tensor()` around its elements: `float`, `seq(float)`."""
    return re.sub(r"\btensor\((\w+)\)", r"\1", kind)


def type_text(value_type: TypeProto) -> str | None:
    """A type as the schemas' type constraints spell it, such as `seq(tensor(float))`; None if unknown."""
    which = value_type.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        element = elem_type_of(value_type)
        if not element:
            return None
        return f"{'sparse_' if which == 'sparse_tensor_type' else ''}tensor({element_name(element)})"
    if which == "sequence_type":
        inner = type_text(value_type.sequence_type.elem_type)
        return inner and f"seq({inner})"
    if which == "optional_type":
        inner = type_text(value_type.optional_type.elem_type)
        return inner and f"optional({inner})"
    if which == "map_type":
        inner = type_text(value_type.map_type.value_type)
        key = value_type.map_type.key_type
        return inner and f"map({element_name(key)},{inner})"
    return None


def has_shape(value_type: TypeProto) -> bool:
    return value_type.tensor_type.HasField("shape")  # which is empty in a type of another kind

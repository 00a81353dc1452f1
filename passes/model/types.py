"""Types of values: element types by name and number, shapes, and what tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.passes.model.messages import TensorProto, TypeProto

Dim = int | str | None


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


def _dims(kind: TypeProto) -> list[Dim]:
    return [_dim(dim) for dim in kind.tensor_type.shape.dim]


def _dim(dim: Any) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return str(dim.dim_param) or None


# The element types as type constraints spell them.
_SPELLED = {
    value: {"FLOAT": "float", "DOUBLE": "double"}.get(name, name.lower())
    for name, value in TensorProto.DataType.items()
}


ELEMENT_TYPES = {f"tensor({text})": value for value, text in _SPELLED.items()}


def elem_type_of(kind: TypeProto) -> int:
    """The element type of a (sparse) tensor type; 0 for unknown types and for other kinds."""
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        return kind.tensor_type.elem_type
    if which == "sparse_tensor_type":
        return kind.sparse_tensor_type.elem_type
    return 0


def type_text(kind: TypeProto) -> str | None:
    """A type as the schemas' type constraints spell it, such as `seq(tensor(float))`; None if unknown."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        element = elem_type_of(kind)
        if not element:
            return None
        return f"{'sparse_' if which == 'sparse_tensor_type' else ''}tensor({_SPELLED.get(element, element)})"
    if which == "sequence_type":
        inner = type_text(kind.sequence_type.elem_type)
        return inner and f"seq({inner})"
    if which == "optional_type":
        inner = type_text(kind.optional_type.elem_type)
        return inner and f"optional({inner})"
    if which == "map_type":
        inner = type_text(kind.map_type.value_type)
        key = kind.map_type.key_type
        return inner and f"map({_SPELLED.get(key, key)},{inner})"
    return None


def has_shape(kind: TypeProto) -> bool:
    return kind.WhichOneof("value") == "tensor_type" and kind.tensor_type.HasField("shape")

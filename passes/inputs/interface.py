"""What a model takes: its inputs, and whether a shape or a value is one of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opshift.passes.model.messages import ModelProto, TensorProto, TypeProto
from opshift.passes.model.types import is_fixed, symbol
from opshift.passes.spelling import hint

_SHOWN = 12  # names in an error


def required_inputs(model: ModelProto) -> dict[str, TypeProto]:
    """The inputs that a model has to be given, with their types."""
    held = {tensor.name for tensor in model.graph.initializer}
    return {value.name: value.type for value in model.graph.input if value.name not in held}


def tensor(value_type: TypeProto) -> TypeProto.Tensor:
    """The tensor in a type; an empty one where there is none."""
    which = value_type.WhichOneof("value")
    return tensor(value_type.optional_type.elem_type) if which == "optional_type" else value_type.tensor_type


def check_name(name: str, names: Iterable[str], what: str, whose: str = "the model") -> None:
    """Raise `ValueError` for a name that is none of these."""
    held = list(dict.fromkeys(names))
    if name in held:
        return
    more = f", and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
    have = f"it has {', '.join(map(repr, sorted(held)[:_SHOWN]))}{more}" if held else "it has none"
    raise ValueError(f"{whose} has no {what} {name!r}{hint(name, held, repr) or f'; {have}'}")


def fits(name: str, value_type: TypeProto, shape: Sequence[int]) -> None:
    """Raise `ValueError` for a shape that is not what the model says of its input."""
    declared = tensor(value_type)
    if not declared.HasField("shape"):
        return
    dims = declared.shape.dim
    text = ",".join(symbol(dim) or (str(dim.dim_value) if is_fixed(dim) else "?") for dim in dims)
    if len(dims) != len(shape):
        raise ValueError(
            f"input {name!r} has rank {len(dims)} ([{text}]), but an array of rank {len(shape)} is given "
            f"({list(shape)})"
        )
    for dim, size in zip(dims, shape, strict=True):
        if is_fixed(dim) and dim.dim_value != size:
            raise ValueError(f"input {name!r} has shape [{text}], but an array of shape {list(shape)} is given")


def of_type(name: str, value: Any, value_type: TypeProto) -> Any:
    """A value as an engine takes it; raises `ValueError` for one that is not of the input's type."""
    which = value_type.WhichOneof("value")
    if which == "optional_type":
        return None if value is None else of_type(name, value, value_type.optional_type.elem_type)
    if which == "sequence_type":
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"input {name!r} is a sequence: give a list of arrays")
        return [of_type(name, one, value_type.sequence_type.elem_type) for one in value]
    array = of_elements(name, value, value_type.tensor_type.elem_type)
    fits(name, value_type, array.shape)
    return array


def of_elements(name: str, value: Any, elem_type: int) -> Any:
    """The same as an array of these elements, whatever its shape is."""
    import numpy as np
    import onnx.helper

    array = np.asarray(value)
    if elem_type == TensorProto.STRING:
        if array.dtype.kind not in "OSU":
            raise ValueError(f"an array of {array.dtype} is given for input {name!r}, which takes strings")
        return array.astype(str).astype(object)
    if elem_type in TensorProto.DataType.values() and elem_type:
        wanted = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
        if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:  # types that numpy keeps as bytes
            array = array.view(wanted)
        if array.dtype != wanted:
            raise ValueError(f"an array of {array.dtype} is given for input {name!r}, which takes {wanted}")
    return array

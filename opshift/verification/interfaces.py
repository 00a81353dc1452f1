"""Inputs and outputs of two forms that are written in different precisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opshift.passes.model.messages import ModelProto, TensorProto, ValueInfoProto

_FLOATS = (TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)

Types = Mapping[str, tuple[int, int]]


def casts(before: ModelProto, after: ModelProto) -> Types:
    """The inputs and outputs that are floats of different types, with these types."""

    def values(model: ModelProto) -> Iterator[ValueInfoProto]:
        yield from model.graph.input
        yield from model.graph.output

    second = {value.name: value.type.tensor_type.elem_type for value in values(after)}
    pairs = {v.name: (v.type.tensor_type.elem_type, second.get(v.name, 0)) for v in values(before)}
    return {n: (a, b) for n, (a, b) in pairs.items() if a != b and a in _FLOATS and b in _FLOATS}


def rounded(feeds: Mapping[str, Any], types: Types) -> dict[str, Any]:
    """Inputs of the first form that the second one has, too."""
    return {n: _cast(_cast(v, types[n][1]), types[n][0]) if n in types else v for n, v in feeds.items()}


def as_second(feeds: Mapping[str, Any], types: Types) -> dict[str, Any]:
    """The same inputs in the types of the second form."""
    return {name: _cast(value, types[name][1]) if name in types else value for name, value in feeds.items()}


def _cast(value: Any, to: int) -> Any:
    import onnx.helper

    return value.astype(onnx.helper.tensor_dtype_to_np_dtype(to))

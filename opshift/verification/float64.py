"""Run models in float64, where rounding does not hide differences: equal functions agree to 15 digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opshift.passes.model.messages import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    normalize_domain,
)
from opshift.passes.model.traversal import bodies
from opshift.verification.engines import EngineError, OnnxRuntime, Session

NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)

_WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix")
_TYPES = {"Cast": "to", "EyeLike": "dtype", "SequenceEmpty": "dtype", **dict.fromkeys(_WINDOWS, "output_datatype")}
"""Attributes that name the type of a result."""


def open_wide(model: ModelProto) -> Session | None:
    """Open a model in float64; None if onnxruntime lacks a kernel in double.

    The proof runs this to tell rounding from errors. Operators of ai.onnx.ml yield float32 whatever they are given.
    """
    if any(normalize_domain(node.domain) == "ai.onnx.ml" for body in bodies(model) for node in body.node):
        return None
    try:
        return OnnxRuntime(widen(model))
    except EngineError:
        return None


def widen(model: ModelProto) -> ModelProto:
    """Copy a model with all narrower floats as double: constants, inputs, casts, functions.

    Runs before a region is opened in float64.
    """
    wide = ModelProto()
    wide.CopyFrom(model)
    for body in bodies(wide):
        for node in body.node:
            _widen_node(node)
        if isinstance(body, GraphProto):
            for tensor in body.initializer:
                _widen_tensor(tensor)
            for value in (*body.input, *body.output, *body.value_info):
                _widen_type(value.type)
    return wide


def widen_feeds(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Convert inputs for a model in float64."""
    return {name: widen_value(value) for name, value in feeds.items()}


def widen_value(value: Any) -> Any:
    """Convert one value, or each of a sequence, to float64; other types stay.

    Runs on each input before a run in float64.
    """
    if isinstance(value, list):
        return [widen_value(item) for item in value]
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.name not in ("float16", "float32", "bfloat16"):
        return value
    return value.astype(np.float64)


def _widen_node(node: NodeProto) -> None:
    """Change the types that a node names to double: those of Cast, constants and random generators. Part of `widen`."""
    if normalize_domain(node.domain):
        return
    for attribute in node.attribute:
        if attribute.name == _TYPES.get(node.op_type) and attribute.i in NARROW:
            attribute.i = TensorProto.DOUBLE
        elif attribute.type == AttributeProto.TENSOR:
            _widen_tensor(attribute.t)
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            values = [attribute.f] if attribute.name == "value_float" else list(attribute.floats)
            dims = [] if attribute.name == "value_float" else [len(values)]
            tensor = TensorProto(data_type=TensorProto.DOUBLE, dims=dims, double_data=values)
            attribute.CopyFrom(AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor))
    if node.op_type in _WINDOWS and all(attribute.name != "output_datatype" for attribute in node.attribute):
        node.attribute.add(name="output_datatype", type=AttributeProto.INT, i=TensorProto.DOUBLE)
    if node.op_type == "ConstantOfShape" and not node.attribute:
        zero = TensorProto(data_type=TensorProto.DOUBLE, dims=[1], double_data=[0])
        node.attribute.add(name="value", type=AttributeProto.TENSOR, t=zero)


def _widen_tensor(tensor: TensorProto) -> None:
    """Convert a narrower float tensor to double. Part of `widen`."""
    from onnx import numpy_helper

    if tensor.data_type in NARROW:
        name, value = tensor.name, numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(value, name))


def _widen_type(value_type: TypeProto) -> None:
    """Change a declared narrower float type to double, in sequences and optionals, too. Part of `widen`."""
    innermost = value_type
    while innermost.HasField("sequence_type") or innermost.HasField("optional_type"):
        innermost = (
            innermost.sequence_type.elem_type
            if innermost.HasField("sequence_type")
            else innermost.optional_type.elem_type
        )
    if innermost.tensor_type.elem_type in NARROW:
        innermost.tensor_type.elem_type = TensorProto.DOUBLE

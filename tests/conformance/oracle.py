"""The outputs of a published case in float64, computed by onnx.reference from the unconverted model."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import onnx.numpy_helper
from onnx import ModelProto, TensorProto

from opshift.verification.engines import EngineError, Reference
from tests.conformance.cases import Case, Key
from tests.runtime import every_node

NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16)


def truth(case: Case) -> list[Any] | None:
    """The outputs with all floats as float64; None where onnx.reference does not run that."""
    return _truth(Key(case))


@lru_cache(maxsize=64)
def _truth(key: Key) -> list[Any] | None:
    case = key.case
    feeds = {name: _wide_value(value) for name, value in case.inputs.items()}
    try:
        return Reference(widened(case.model)).run(feeds)
    except EngineError:
        return None


def widened(model: ModelProto) -> ModelProto:
    """A copy with float64 in place of float32 and float16: of inputs, constants and casts."""
    wide = ModelProto()
    wide.CopyFrom(model)
    for value in (*wide.graph.input, *wide.graph.output, *wide.graph.value_info):
        if value.type.tensor_type.elem_type in NARROW:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in wide.graph.initializer:
        _widen(tensor)
    for node in every_node(wide.graph.node):
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in NARROW:
                attribute.i = TensorProto.DOUBLE
            if attribute.HasField("t"):
                _widen(attribute.t)
    return wide


def _widen(tensor: TensorProto) -> None:
    if tensor.data_type in NARROW:
        name = tensor.name
        tensor.CopyFrom(onnx.numpy_helper.from_array(_wide_value(onnx.numpy_helper.to_array(tensor)), name))


def _wide_value(value: Any) -> Any:
    narrow = isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float16)
    return value.astype(np.float64) if narrow else value

"""Constants as nodes."""

from __future__ import annotations

from collections.abc import Callable

from opshift.passes.model import tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import NodeProto, TensorProto
from opshift.passes.model.types import number_name

_CAST_TO_A_NUMBER = 6  # the opset from which on Cast spells its type as a number


def in_nodes(tensor: TensorProto, opset: int, fresh: Callable[[str], str]) -> list[NodeProto]:
    """Nodes that make the value of `tensor`, though Constant knew only floats; none if there are no such nodes."""
    value = tensors.array(tensor)
    constant = NodeProto(op_type="Constant", output=[tensor.name])
    if tensor.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE):
        constant.attribute.append(make_attribute("value", tensor))
        return [constant]
    if value is None or value.dtype.kind not in "iub" or (value.astype(float).astype(value.dtype) != value).any():
        return []
    constant.output[0] = fresh(tensor.name)
    constant.attribute.append(make_attribute("value", tensors.tensor(value.astype(float), TensorProto.DOUBLE)))
    to = tensor.data_type if opset >= _CAST_TO_A_NUMBER else number_name(tensor.data_type)
    cast = NodeProto(op_type="Cast", input=[constant.output[0]], output=[tensor.name])
    cast.attribute.append(make_attribute("to", to))
    return [constant, cast]

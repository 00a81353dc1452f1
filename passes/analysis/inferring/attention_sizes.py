"""Find outputs of Attention that ONNX's inference gives wrong sizes: 0 for unknown ones, and no keys of the past."""

from __future__ import annotations

from collections.abc import Mapping

from opshift.passes.model.messages import NodeProto, TypeProto

KEY, PAST_KEY = 1, 4
"""The places of the inputs with keys."""
KEY_HEADS = "kv_num_heads"
"""The attribute that splits inputs of rank 3 into heads."""
SCORES = 3
"""The place of the last output, which has one element for each key."""


def find_wrong(node: NodeProto, value_types: Mapping[str, TypeProto], called: bool) -> set[str]:
    """List the outputs of an Attention that have, or may have, another size than is inferred."""
    values, apart = value_types.get(node.output[0]), any(held.name == KEY_HEADS for held in node.attribute)
    found = set()
    if apart and (values is None or _size(values, -1) == 0):
        found.add(node.output[0])
    if any(node.output[SCORES:]) and _is_miscounted(node, value_types):
        found.add(node.output[SCORES])
    return found


def _is_miscounted(node: NodeProto, value_types: Mapping[str, TypeProto]) -> bool:
    past = node.input[PAST_KEY] if len(node.input) > PAST_KEY else ""
    lengths = [_size(value_types.get(node.input[KEY]), -2), _size(value_types.get(past), -2) if past else 0]
    return None in lengths or sum(filter(None, lengths)) != _size(value_types.get(node.output[SCORES]), -1)


def _size(value_type: TypeProto | None, axis: int) -> int | None:
    dims = value_type.tensor_type.shape.dim if value_type is not None else []
    return dims[axis].dim_value if len(dims) >= -axis and dims[axis].HasField("dim_value") else None

"""The element types that a model names: those of all its values follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opshift.passes.model.messages import GraphProto, ModelProto, TypeProto
from opshift.passes.model.traversal import bodies

TYPE_ATTRIBUTES = frozenset(
    ("dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "stash_type", "to")
)
"""The attributes that hold the number of an element type."""


def named_types(model: ModelProto) -> Iterator[int]:
    """Every element type that a model names: all others follow from these."""
    for body in bodies(model):
        if isinstance(body, GraphProto):
            yield from (tensor.data_type for tensor in body.initializer)
            yield from (sparse.values.data_type for sparse in body.sparse_initializer)
            for value in (*body.input, *body.output):
                yield from (kind.elem_type for kind in tensor_types(value.type))
        for node in body.node:
            for attribute in node.attribute:
                if attribute.name in TYPE_ATTRIBUTES:
                    yield attribute.i
                yield attribute.t.data_type
                yield attribute.sparse_tensor.values.data_type


def tensor_types(value_type: TypeProto) -> Iterator[Any]:
    """The types of tensors in a type, those in sequences and optionals among them."""
    which = value_type.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        yield getattr(value_type, which)
    elif which in ("sequence_type", "optional_type"):
        yield from tensor_types(getattr(value_type, which).elem_type)
    elif which == "map_type":
        yield from tensor_types(value_type.map_type.value_type)

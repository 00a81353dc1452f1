"""ONNX's message classes, without the rest of onnx.

`import onnx` costs three times what the message classes cost (numpy, the C++ extension), and a conversion
mostly needs the classes alone. They are loaded under their own module name, so a later `import onnx` finds
and uses the very same classes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if not TYPE_CHECKING and "onnx" not in sys.modules and "onnx.onnx_ml_pb2" not in sys.modules:
    _onnx = importlib.util.find_spec("onnx")
    if _onnx is None or not _onnx.submodule_search_locations:
        raise ImportError("opshift needs the onnx package")
    _spec = importlib.util.spec_from_file_location(
        "onnx.onnx_ml_pb2", os.path.join(_onnx.submodule_search_locations[0], "onnx_ml_pb2.py")
    )
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["onnx.onnx_ml_pb2"] = _module
    _spec.loader.exec_module(_module)

if TYPE_CHECKING:
    from onnx.onnx_ml_pb2 import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        OperatorSetIdProto,
        SparseTensorProto,
        TensorProto,
        TypeProto,
        ValueInfoProto,
    )
else:
    _pb2 = sys.modules.get("onnx.onnx_ml_pb2") or importlib.import_module("onnx.onnx_ml_pb2")
    AttributeProto = _pb2.AttributeProto
    FunctionProto = _pb2.FunctionProto
    GraphProto = _pb2.GraphProto
    ModelProto = _pb2.ModelProto
    NodeProto = _pb2.NodeProto
    OperatorSetIdProto = _pb2.OperatorSetIdProto
    SparseTensorProto = _pb2.SparseTensorProto
    TensorProto = _pb2.TensorProto
    TypeProto = _pb2.TypeProto
    ValueInfoProto = _pb2.ValueInfoProto

__all__ = [
    "AttributeProto",
    "FunctionProto",
    "GraphProto",
    "ModelProto",
    "NodeProto",
    "OperatorSetIdProto",
    "SparseTensorProto",
    "TensorProto",
    "TypeProto",
    "ValueInfoProto",
    "default_domain",
    "elem_type_of",
    "type_text",
]


def retain(held: Any, kept: Sequence[bool]) -> None:
    """Drop those of a repeated field's messages that are not `kept`; the others are not copied, only moved."""
    flags = iter(kept)
    held.sort(key=lambda _: not next(flags))
    del held[sum(kept) :]


def keep_held(graph: GraphProto, like: GraphProto) -> None:
    """What a graph holds beside its nodes, inputs and outputs goes into the one that is made of it."""
    for field in ("initializer", "sparse_initializer", "value_info", "quantization_annotation"):
        getattr(graph, field).extend(getattr(like, field))


def put(body: GraphProto | FunctionProto, taken: Mapping[int, Sequence[NodeProto | bytes]]) -> None:
    """Put nodes in the places of those at the indices in `taken`; the others are not copied, only moved.

    Bytes stand for a node as the body's field holds it.
    """
    field, nodes = tag(body.NODE_FIELD_NUMBER), body.node
    places: list[int] = []  # where each node goes, first those that are there, then those that are added
    added: list[bytes] = []
    later: list[int] = []
    position, last = 0, sum(map(len, taken.values())) + len(nodes)
    for index in range(len(nodes)):
        made = taken.get(index)
        if made is None:
            places.append(position)
            position += 1
            continue
        places.append(last)
        for node in made:
            if isinstance(node, bytes):
                added.append(node)
            elif node is nodes[index]:
                places[-1] = position
                position += 1
                continue
            else:
                added.append(field + sized(node.SerializeToString()))
            later.append(position)
            position += 1
    if len(later) == position:
        del nodes[:]
        body.MergeFromString(b"".join(added))
        return
    body.MergeFromString(b"".join(added))
    order = iter(places + later)
    nodes.sort(key=lambda _: next(order))
    del nodes[position:]


def tag(number: int) -> bytes:
    """What stands in front of the bytes of a message or text in the field of this number."""
    assert number < 16, "in one byte"
    return bytes([number << 3 | 2])


def sized(data: bytes) -> bytes:
    """Bytes behind their length, as a field holds them."""
    length = len(data)
    if length < len(_LENGTHS):
        return _LENGTHS[length] + data
    head = bytearray()
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes([*head, length]) + data


_LENGTHS = [bytes([length]) for length in range(128)]


def default_domain(domain: str) -> str:
    """The default domain's canonical name: `ai.onnx` is an alias of the empty string."""
    return "" if domain == "ai.onnx" else domain


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

"""Pools whose sizes are rounded up: below opset 22 ONNX's inference counts windows that begin behind the data, which
runtimes leave out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import NodeProto, TypeProto

POOLS = frozenset(["AveragePool", "LpPool", "MaxPool"])
LEFT_OUT = 22
"""The opset from which on inference leaves them out, too."""


def may_begin_behind(node: NodeProto, opset: int) -> bool:
    """Whether there are sizes of which a pool of the default domain has such a window."""
    if node.op_type not in POOLS or opset >= LEFT_OUT:
        return False
    held = _attributes(node)
    kernel = held.get("kernel_shape", [])
    if not held.get("ceil_mode", 0):
        return False
    strides, dilations = (held.get(name) or [1] * len(kernel) for name in ("strides", "dilations"))
    ends = _pads(held, len(kernel))[len(kernel) :]
    windows = zip(kernel, strides, dilations, ends, strict=False)
    return any((size - 1) * apart + 1 < stride + pad for size, stride, apart, pad in windows)


def find_wrong(node: NodeProto, value_types: Mapping[str, TypeProto], called: bool) -> set[str]:
    """All outputs of a pool that has such a window with these `kinds`, or may have one as its function is `called`."""
    return set(node.output) if called or _begins_behind(node, value_types) else set()


def _begins_behind(node: NodeProto, value_types: Mapping[str, TypeProto]) -> bool:
    held = _attributes(node)
    given, made = (_dims(value_types.get(name)) for name in (node.input[0], node.output[0]))
    strides = held.get("strides") or [1] * len(held.get("kernel_shape", []))
    pads = _pads(held, len(strides))
    return any(
        given_size is not None and count is not None and (count - 1) * stride >= given_size + pad
        for given_size, count, stride, pad in zip(given[2:], made[2:], strides, pads, strict=False)
    )


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {a.name: attribute_value(a) for a in node.attribute if not a.ref_attr_name}


def _pads(held: Mapping[str, Any], axes: int) -> list[int]:
    """The pads that are stated; beside `auto_pad` there are none where they matter."""
    stated = held.get("pads") if held.get("auto_pad", "NOTSET") == "NOTSET" else None
    return stated or [0] * (2 * axes)


def _dims(value_type: TypeProto | None) -> list[int | None]:
    dims = value_type.tensor_type.shape.dim if value_type is not None else []
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]

"""Find pools with ceil_mode whose output ONNX's inference makes too large.

Below opset 22 it counts windows that begin behind the data, which runtimes leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import NodeProto, TypeProto

POOLS = frozenset(["AveragePool", "LpPool", "MaxPool"])
LEFT_OUT = 22
"""From this opset on, inference leaves these windows out, too."""


def may_begin_behind(node: NodeProto, opset: int) -> bool:
    """Tell whether a pool of the default domain has such a window at some input size."""
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
    """List all outputs of a pool that has such a window, or may have one, as the sizes in a function are unknown."""
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
    """Read the pads; 0 with `auto_pad`."""
    stated = held.get("pads") if held.get("auto_pad", "NOTSET") == "NOTSET" else None
    return stated or [0] * (2 * axes)


def _dims(value_type: TypeProto | None) -> list[int | None]:
    dims = value_type.tensor_type.shape.dim if value_type is not None else []
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]

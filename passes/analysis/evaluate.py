"""Evaluate small computations on integers, booleans and strings, which compute axes, shapes, pads and conditions."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.analysis.knowledge import KnownBody
from opshift.passes.model import schemas, tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import NodeProto, TensorProto, normalize_domain

# Operators whose value does not depend on their version once broadcasting is numpy's, for all but floats.
_PURE = frozenset(
    [
        "Abs",
        "Add",
        "Cast",
        "Concat",
        "ConstantOfShape",
        "Div",
        "Equal",
        "Expand",
        "Gather",
        "Less",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Range",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Shape",
        "Size",
        "Slice",
        "Squeeze",
        "Sub",
        "Unique",
        "Unsqueeze",
        "Where",
    ]
)
_OF_SHAPES = frozenset(["Shape", "Size"])
_REPEATING = frozenset(["Constant", "Identity"])  # the scope looks through them
_DEPTH = 24
_MOST = 1 << 16  # elements of a result; numbers in a model may ask for any number of them


def constant(node: NodeProto, scope: KnownBody, depth: int = _DEPTH) -> TensorProto | None:
    """Compute the output of `node`; None unless all that it depends on is constant and small."""
    if node.op_type not in _PURE or normalize_domain(node.domain) or len(node.output) != 1 or not depth:
        return None
    if any(attribute.ref_attr_name for attribute in node.attribute):
        return None
    name = node.output[0]
    if name not in scope.folded:
        scope.folded[name] = _compute(node, scope, depth)
    return scope.folded[name]


def opaque(nodes: Sequence[NodeProto]) -> set[str]:
    """List the outputs of `nodes` that cannot be evaluated, even if all inputs of the first node were constant."""
    found: set[str] = set()
    for node in nodes:
        evaluated = not normalize_domain(node.domain) and (node.op_type in _PURE or node.op_type in _REPEATING)
        if not evaluated or (node.op_type not in _OF_SHAPES and not found.isdisjoint(node.input)):
            found.update(node.output)
    return found


def _compute(node: NodeProto, scope: KnownBody, depth: int) -> TensorProto | None:
    if node.op_type in _OF_SHAPES:
        return _static_shape(node, scope)
    feeds: dict[str, TensorProto] = {}
    for name in filter(None, node.input):
        held = _constant(name, scope, depth - 1)
        if held is None:
            return None
        feeds[name] = held
    return _run(node, feeds, scope)


def _constant(name: str, scope: KnownBody, depth: int) -> TensorProto | None:
    owner = scope.owner(name)
    if owner is not None and owner.is_opaque(name):
        return None
    node = None if owner is None else owner.maker(name)
    if owner is None or node is None or node.op_type in _REPEATING:
        return scope.tensor(name, tensors.SMALL)
    return constant(node, owner, depth)


def _static_shape(node: NodeProto, scope: KnownBody) -> TensorProto | None:
    shape = scope.shape(node.input[0])
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    dims = [dim for dim in shape if isinstance(dim, int)]
    if node.op_type == "Size":
        count = 1
        for dim in dims:
            count *= dim
        return tensors.int64s([count], [])
    bounds = {a.name: a.i for a in node.attribute}
    return tensors.int64s(dims[bounds.get("start", 0) : bounds.get("end", len(dims))])


def _is_exact(kind: str, node: NodeProto) -> bool:
    """Tell whether every engine computes the same: floats may only be compared, or rounded once to the nearest."""
    if kind in "iubO" or node.op_type in ("Equal", "Less"):
        return True
    to = next((a.i for a in node.attribute if a.name == "to"), 0)
    return node.op_type == "Cast" and to in (TensorProto.FLOAT, TensorProto.DOUBLE)


def _run(node: NodeProto, feeds: dict[str, TensorProto], scope: KnownBody) -> TensorProto | None:
    from opshift.passes.analysis import kernels

    opset = scope.opset_of(node)
    if opset < kernels.SINCE or schemas.since(node.domain, node.op_type, opset) is None:
        return None
    arrays = {name: tensors.array(held) for name, held in feeds.items()}
    if not all(value is not None and _is_exact(value.dtype.kind, node) for value in arrays.values()):
        return None
    inputs = [arrays.get(name) for name in node.input]
    attributes = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    found = kernels.compute(node.op_type, opset, inputs, attributes, most=_MOST)
    if found is None:
        return None
    import onnx.numpy_helper

    return onnx.numpy_helper.from_array(found[0][0])

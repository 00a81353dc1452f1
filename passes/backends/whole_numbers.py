"""Keep quantized values in floats: whole numbers within the range of an integer type need no Cast to it and back."""

from __future__ import annotations

from opshift.passes.analysis.scope import Scope, open_main_graph
from opshift.passes.changes import Change, Result
from opshift.passes.model import schemas, tensors
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.editing import dead_code
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, copy_model

T = TensorProto
_RANGES = {T.INT8: (-128, 127), T.UINT8: (0, 255), T.INT16: (-32768, 32767), T.UINT16: (0, 65535)}
_INTEGERS = {*_RANGES, T.INT32, T.UINT32, T.INT64, T.UINT64}
_ROUNDED = frozenset({"Ceil", "Floor", "Round"})
_KEEP_WHOLE = frozenset({"Add", "Clip", "Identity", "Max", "Min", "Sub"})
_DEEPEST = 8  # nodes above a Clip that are looked at
_SINCE = 11  # the opset from which on the bounds of a Clip are inputs
_HOW = "Replaced Casts to integers and back, of whole numbers in their range, by Add of 0"
_NAN = "keeps NaN, which a Cast makes a number"


def keep_in_floats(source: ModelProto, folder: str | None = None) -> Result:
    """Let nodes of the main graph read clipped whole numbers in place of their Cast to integers and back.

    An Add of 0 gives a negative zero the sign that it has after the Casts.
    """
    scope = open_main_graph(source, folder)
    clipped = {node.output[0]: _find_clipped(node, scope) for node in source.graph.node if _is_cast(node)}
    clipped = {name: clip for name, clip in clipped.items() if clip}
    if not clipped or scope.opset < _SINCE:
        return Result(source, (), ())
    model, nodes, changes = copy_model(source), list[NodeProto](), list[Change]()
    fresh, released = Names(source).fresh, set[str]()
    version = schemas.since("", "Cast", scope.opset) or 1
    for node in model.graph.node:
        if _is_cast(node) and node.output[0] in clipped:
            name, zero = node.output[0], fresh(f"{node.output[0]}/zero")
            value = make_attribute("value", tensors.tensor(0.0, scope.elem_type(name)))
            nodes.append(NodeProto(op_type="Constant", output=[zero], attribute=[value]))
            nodes.append(NodeProto(op_type="Add", name=node.name, input=[clipped[name], zero], output=[name]))
            changes.append(Change(node.name or name, "Cast", "", version, version, _HOW, "close", _NAN))
            released.add(node.input[0])
        else:
            nodes.append(node)
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    dead_code.drop_unused(model, released)
    return Result(model, tuple(changes), ())


def _is_cast(node: NodeProto) -> bool:
    return node.op_type == "Cast" and not node.domain


def _find_clipped(node: NodeProto, scope: Scope) -> str:
    """The whole numbers that a Cast gives back, once they went through an integer type; empty if there are none."""
    inner = scope.producer(node.input[0])
    clip = scope.producer(inner.input[0]) if inner is not None and _is_cast(inner) else None
    if inner is None or clip is None or clip.op_type != "Clip" or clip.domain or len(clip.input) != 3:
        return ""
    if scope.elem_type(inner.input[0]) != scope.elem_type(node.output[0]):
        return ""
    lowest, highest = _RANGES.get(attribute_value(inner.attribute[0]), (0, -1))
    bounds = [scope.array(name) if name else None for name in clip.input[1:]]
    if any(bound is None or bound.size != 1 or not lowest <= bound.item() <= highest for bound in bounds):
        return ""
    return inner.input[0] if _is_whole(scope, inner.input[0]) else ""


def _is_whole(scope: Scope, name: str, depth: int = 0) -> bool:
    """Whether all elements of a value are whole numbers, or infinite."""
    held = scope.array(name) if scope.is_constant(name) else None
    if held is not None:
        return bool((held == held.round()).all())
    node = scope.producer(name)
    if node is None or node.domain or depth > _DEEPEST:
        return False
    if node.op_type == "Cast" and scope.elem_type(node.input[0]) in _INTEGERS:
        return True
    return node.op_type in _ROUNDED or (
        node.op_type in _KEEP_WHOLE and all(_is_whole(scope, given, depth + 1) for given in node.input if given)
    )

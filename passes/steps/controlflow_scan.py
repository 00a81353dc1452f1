"""Scan: it iterated over a batch of sequences and now iterates over one sequence along any axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.protos import GraphProto, NodeProto, TensorProto
from opshift.passes.registry import Pair, Replacement, changed
from opshift.passes.scope import tensor_type
from opshift.passes.view import Node, make_attribute

T = TensorProto

SINCE_9 = dict.fromkeys(("scan_input_axes", "scan_output_axes", "scan_input_directions", "scan_output_directions"))


def scan_of_a_scan(node: Node) -> Replacement:
    """Each sequence of a batch was scanned on its own: a Scan over the batch holds the Scan over a sequence."""
    lengths, operands = node.input(0), node.inputs[1:]
    scanned = node.attributes["num_scan_inputs"]
    directions = node.attributes.get("directions", [0] * scanned)
    if lengths and any(directions):
        raise CannotConvert(
            node, "a reversed scan with sequence_lens; one of them, reversed or of several lengths, could be expressed"
        )
    fresh, batch = node.scope.context.names.fresh, GraphProto(name="batch")
    formals = [fresh(f"{name}/sequence") for name in operands]
    results = [fresh(f"{name}/sequence") for name in node.outputs]
    inner = NodeProto()
    inner.CopyFrom(node.proto)
    inner.name = fresh(f"{node.name}/sequence")
    kept = [a for a in node.proto.attribute if a.name != "directions"]
    del inner.attribute[:]
    inner.attribute.extend(kept)
    if any(directions):
        inner.attribute.append(make_attribute("scan_input_directions", directions))
    inner.input[:], inner.output[:] = formals, results
    if lengths:
        _stop_at_length(node, inner, batch, len(operands) - scanned, fresh("length"))
    batch.input.extend(_formal(node, name, formal) for name, formal in zip(operands, formals, strict=True))
    batch.node.append(inner)
    for name, result in zip(node.outputs, results, strict=True):
        batch.output.append(_formal(node, name, result))
    everything = ([lengths] if lengths else []) + operands
    over = {"body": batch, "num_scan_inputs": len(everything), "directions": None}
    finals = node.build.again(node.proto, everything, **over)
    return [finals] if isinstance(finals, str) else list(finals)


def _formal(node: Node, name: str, formal: str) -> Any:
    value = GraphProto().input.add(name=formal)
    if name and (elem_type := node.scope.elem_type(name)):
        value.type.CopyFrom(tensor_type(elem_type))
    return value


def _stop_at_length(node: Node, inner: NodeProto, batch: GraphProto, states: int, length: str) -> None:
    """Beyond the length of a sequence its states stay what they are; a counter is carried as one more state."""
    fresh = node.scope.context.names.fresh
    body = next(a.g for a in inner.attribute if a.name == "body")
    at, after, goes_on = fresh("step"), fresh("step"), fresh("goes_on")
    zero, one = (node.build.constant(number, T.INT64) for number in (0, 1))
    body.node.append(NodeProto(op_type="Less", input=[at, length], output=[goes_on]))
    body.node.append(NodeProto(op_type="Add", input=[at, one], output=[after]))
    for old, new in zip(list(body.input)[:states], list(body.output)[:states], strict=True):
        held = fresh(new.name)
        body.node.append(NodeProto(op_type="Where", input=[goes_on, new.name, old.name], output=[held]))
        new.name = held
    counter = [body.input.add(name=at), body.output.add(name=after), batch.input.add(name=length)]
    for value in counter:
        value.type.CopyFrom(tensor_type(T.INT64, []))
    for values in (body.input, body.output):
        values.insert(0, values.pop())
    inner.input.insert(0, zero)
    inner.output.insert(0, fresh("steps"))


def batch_of_one(node: Node) -> Replacement:
    """Only sequences in a batch could be scanned, along the first axis: the sequence is made a batch of one."""
    build, states = node.build, len(node.inputs) - node.attributes["num_scan_inputs"]
    operands = list(node.inputs)
    for i, axis in enumerate(node.attributes.get("scan_input_axes", [])):
        if axis:
            operands[states + i] = build.Transpose(operands[states + i], perm=_axis_first(axis, node.rank(states + i)))
    directions = node.attributes.get("scan_input_directions", [])
    batched = build.again(
        node.proto,
        ["", *(build.Unsqueeze(name, axes=[0]) for name in operands)],
        **SINCE_9,
        directions=directions if any(directions) else None,
    )
    results = [batched] if isinstance(batched, str) else list(batched)
    axes = node.attributes.get("scan_output_axes", [])
    for k, backwards in enumerate(node.attributes.get("scan_output_directions", [])):
        if backwards and node.outputs[states + k]:
            results[states + k] = _reversed(node, results[states + k], node.outputs[states + k])
    results = [build.Squeeze(name, axes=[0]) for name in results]
    for k, axis in enumerate(axes):
        if axis and node.outputs[states + k]:
            perm = _axis_first(axis, _rank_of_output(node, states + k))
            inverse = [perm.index(position) for position in range(len(perm))]
            results[states + k] = build.Transpose(results[states + k], perm=inverse)
    return results


def _axis_first(axis: int, rank: int) -> list[int]:
    return [axis, *(other for other in range(rank) if other != axis)]


def _rank_of_output(node: Node, index: int) -> int:
    shape = node.scope.shape(node.outputs[index])
    if shape is None:
        raise CannotConvert(node, f'the rank of "{node.outputs[index]}" is unknown; a known rank could be expressed')
    return len(shape)


def _reversed(node: Node, batched: str, like: str) -> str:
    """A Scan that hands on what it reads from the end to the beginning."""
    fresh = node.scope.context.names.fresh
    body = GraphProto(name="backwards")
    body.input.append(_formal(node, like, fresh("element")))
    body.output.append(_formal(node, like, fresh("element")))
    body.node.append(NodeProto(op_type="Identity", input=[body.input[0].name], output=[body.output[0].name]))
    return str(node.build.Scan(None, batched, body=body, num_scan_inputs=1, directions=[1]))


def axes_from_the_front(node: Node) -> None:
    """Negative axes were not allowed and are counted from the front."""
    states = len(node.inputs) - node.attributes["num_scan_inputs"]

    def count(name: str, rank: Callable[[int], int]) -> None:
        axes = node.attributes.get(name, [])
        if any(axis < 0 for axis in axes):
            node.attributes[name] = [axis + rank(states + k) if axis < 0 else axis for k, axis in enumerate(axes)]

    count("scan_input_axes", node.rank)
    count("scan_output_axes", lambda k: _rank_of_output(node, k))


changed("Scan", 9, Pair(up=scan_of_a_scan, down=batch_of_one))
changed("Scan", 11, Pair(down=axes_from_the_front))

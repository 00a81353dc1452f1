"""A script: what the steps made of a stand-in, to be written down once and played for every call like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opshift.passes.changes import Change
from opshift.passes.names import subgraphs
from opshift.passes.protos import NodeProto, TypeProto
from opshift.passes.scope import Scope
from opshift.passes.stage import DOC, MARK, Event, Stage, Unrepeatable


@dataclass(frozen=True)
class _Line:
    """A node that is made: `rest` is all of it but its names."""

    rest: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str
    opset: int
    holds_graphs: bool
    doc: bool
    metadata: bool


@dataclass(frozen=True)
class _Edit:
    """What becomes of the call itself; None is left as it is, `more` are inputs behind those that it has."""

    op_type: str | None
    domain: str | None
    attributes: bytes | None
    more: tuple[str, ...]
    inputs: tuple[str, ...] | None
    outputs: tuple[str, ...]
    other_outputs: bool
    opset: int


@dataclass(frozen=True)
class Script:
    events: tuple[Event, ...]
    lines: tuple[_Line | _Edit, ...]
    changes: tuple[tuple[str, tuple[Any, ...]], ...]
    typed: tuple[tuple[str, TypeProto], ...]
    released: tuple[str, ...]
    settled: tuple[str, ...]


def write(
    stage: Stage, stand_in: NodeProto, before: NodeProto, done: list[NodeProto], changes: Sequence[Change]
) -> Script:
    if any(isinstance(text, str) and MARK in text for change in changes for text in change[1:]):
        raise Unrepeatable
    made = {name for proto in done for name in proto.output}
    return Script(
        tuple(stage.events),
        tuple(_edit(proto, before, stage) if proto is stand_in else _line(proto, stage) for proto in done),
        tuple((change.node, tuple(change[1:])) for change in changes),
        tuple((name, kind) for name, kind in stage.typed.items() if name in made),
        tuple(filter(None, stage.context.released)),
        tuple(filter(None, stage.context.settled)),
    )


def _opset(proto: NodeProto, stage: Stage) -> int:
    return stage.made[next(filter(None, proto.output))][1]


def _line(proto: NodeProto, stage: Stage) -> _Line:
    rest = NodeProto()
    rest.CopyFrom(proto)
    doc, metadata = proto.doc_string == DOC, any(entry.key == DOC for entry in proto.metadata_props)
    for name in (
        "input",
        "output",
        "name",
        *(["doc_string"] if doc else []),
        *(["metadata_props"] if metadata else []),
    ):
        rest.ClearField(name)
    return _Line(
        rest.SerializeToString(),
        tuple(proto.input),
        tuple(proto.output),
        proto.name,
        _opset(proto, stage),
        any(True for _ in subgraphs(proto)),
        doc,
        metadata,
    )


def _edit(proto: NodeProto, before: NodeProto, stage: Stage) -> _Edit:
    held = [[a.SerializeToString(deterministic=True) for a in node.attribute] for node in (before, proto)]
    attributes = NodeProto(attribute=proto.attribute).SerializeToString() if held[0] != held[1] else None
    inputs, outputs = proto.input[:], proto.output[:]
    known = len(before.input)
    more = inputs[known:] if inputs[:known] == before.input else []
    rest, old = NodeProto(), NodeProto()
    for copy, node in ((rest, proto), (old, before)):
        copy.CopyFrom(node)
        for name in ("input", "output", "op_type", "domain", "attribute"):
            copy.ClearField(name)
    if rest != old or any(True for _ in subgraphs(proto)):
        raise Unrepeatable
    return _Edit(
        proto.op_type if proto.op_type != before.op_type else None,
        proto.domain if proto.domain != before.domain else None,
        attributes,
        tuple(more),
        tuple(inputs) if not more and inputs != before.input else None,
        tuple(outputs),
        outputs != before.output,
        _opset(proto, stage),
    )


def play(
    script: Script, proto: NodeProto, names: dict[str, str], scope: Scope, changes: list[Change]
) -> list[NodeProto]:
    context, shared = scope.context, scope.shared
    for event in script.events:
        held = shared.get(event.key) if event.key else None
        names[event.place] = _event(event, names, scope) if held is None else held
    if script.released:
        context.released.update([names.get(name, name) for name in script.released])
    if script.settled:
        context.settled.update([names.get(name, name) for name in script.settled])
    for place, rest in script.changes:
        changes.append(tuple.__new__(Change, (names.get(place, place), *rest)))
    result = []
    for line in script.lines:
        if isinstance(line, _Edit):
            _apply(line, proto, names)
            node = proto
        else:
            node = _write(line, proto, names)
        made = (node, line.opset)
        for place in line.outputs:
            scope.made[names.get(place, place)] = made
        result.append(node)
    for place, kind in script.typed:
        scope.typed[names.get(place, place)] = kind
    if context.released:
        for node in result:
            context.released.difference_update(node.input)
    return result


def _event(event: Event, names: dict[str, str], scope: Scope) -> str:
    hint = "".join([names.get(part, part) for part in event.hint])
    if event.tensor is None:
        return scope.context.names.fresh(hint)
    held = scope.constant(event.tensor, hint)
    assert held is not None, "the script of a graph is not played in a function"
    return held


def _apply(edit: _Edit, proto: NodeProto, names: dict[str, str]) -> None:
    if edit.op_type is not None:
        proto.op_type = edit.op_type
    if edit.domain is not None:
        proto.domain = edit.domain
    if edit.attributes is not None:
        proto.ClearField("attribute")
        if edit.attributes:
            proto.MergeFromString(edit.attributes)
    if edit.more:
        proto.input.extend([names.get(name, name) for name in edit.more])
    elif edit.inputs is not None:
        proto.input[:] = [names.get(name, name) for name in edit.inputs]
    if edit.other_outputs:
        proto.output[:] = [names.get(name, name) for name in edit.outputs]


def _write(line: _Line, proto: NodeProto, names: dict[str, str]) -> NodeProto:
    node = NodeProto.FromString(line.rest)
    node.input.extend([names.get(name, name) for name in line.inputs])
    node.output.extend([names.get(name, name) for name in line.outputs])
    if line.name:
        node.name = names.get(line.name, line.name)
    if line.doc:
        node.doc_string = proto.doc_string
    if line.metadata:
        node.metadata_props.extend(proto.metadata_props)
    if line.holds_graphs:
        _fill(node, names)
    return node


def _fill(node: NodeProto, names: Mapping[str, str]) -> None:
    """Replace the placeholders in the graphs that a node holds."""
    pending = [graph for _, _, graph in subgraphs(node)]
    while pending:
        graph = pending.pop()
        for value in (*graph.input, *graph.output, *graph.value_info):
            value.name = names.get(value.name, value.name)
        for tensor in graph.initializer:
            tensor.name = names.get(tensor.name, tensor.name)
        for inner in graph.node:
            inner.input[:] = [names.get(name, name) for name in inner.input]
            inner.output[:] = [names.get(name, name) for name in inner.output]
            if inner.name:
                inner.name = names.get(inner.name, inner.name)
            pending += [nested for _, _, nested in subgraphs(inner)]

"""A script: what the steps made of a stand-in, to be written down once and played for every call like it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from opshift.passes import evaluate
from opshift.passes.changes import Change
from opshift.passes.names import subgraphs
from opshift.passes.protos import NodeProto, TypeProto, sized, tag
from opshift.passes.scope import Scope
from opshift.passes.stage import DOC, MARK, OUTPUTS, Event, Stage, Unrepeatable


@dataclass(frozen=True)
class _Line:
    """A node that is made, as it is in a file: `form` has a gap for each name, which `pick` takes from all names.

    `graphs` is empty, or what is behind the names of a node that holds graphs.
    """

    form: bytes
    pick: Callable[[Mapping[str, bytes]], Any]
    outputs: tuple[str, ...]
    opset: int
    graphs: bytes
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
    """`names` are the places in made nodes, `outputs` those that the call has, too; `edits` says that it stays.

    Where it is `opaque`, none of the outputs can be evaluated, whatever the inputs hold.
    """

    events: tuple[Event, ...]
    lines: tuple[_Line | _Edit, ...]
    changes: tuple[tuple[str, tuple[Any, ...]], ...]
    typed: dict[str, TypeProto]
    released: tuple[str, ...]
    settled: tuple[str, ...]
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    read: tuple[str, ...]
    edits: bool
    opaque: bool

    def recall(self, made: Sequence[NodeProto | bytes], scope: Scope) -> None:
        """Tell the scope about the nodes that were made for a call, now that it is asked about their outputs."""
        for line, data in zip(self.lines, made, strict=True):
            node = NodeProto.FromString(data) if isinstance(data, bytes) else data
            for place, name in zip(line.outputs, node.output, strict=True):
                scope.later.pop(name, None)
                scope.made[name] = node, line.opset
                if place in self.typed and place not in OUTPUTS:
                    scope.typed[name] = self.typed[place]


def write(
    stage: Stage, stand_in: NodeProto, before: NodeProto, done: list[NodeProto], changes: Sequence[Change]
) -> Script:
    if any(isinstance(text, str) and MARK in text for change in changes for text in change[1:]):
        raise Unrepeatable
    made = {name for proto in done for name in proto.output}
    lines = [_edit(proto, before, stage) if proto is stand_in else _line(proto, stage) for proto in done]
    written = [name for proto in done if proto is not stand_in for name in _names(proto)]
    return Script(
        tuple(stage.events),
        tuple(lines),
        tuple((change.node, tuple(change[1:])) for change in changes),
        {name: kind for name, kind in stage.typed.items() if name in made},
        tuple(filter(None, stage.context.released)),
        tuple(filter(None, stage.context.settled)),
        tuple(dict.fromkeys(name for name in written if name.startswith(MARK))),
        tuple(name for name in OUTPUTS if name in made),
        tuple({name for proto in done for name in proto.input}),
        any(proto is stand_in for proto in done),
        {name for name in OUTPUTS if name in made} <= evaluate.opaque(done),
    )


def _opset(proto: NodeProto, stage: Stage) -> int:
    return stage.made[next(filter(None, proto.output))][1]


def _names(proto: NodeProto) -> list[str]:
    return [*proto.input, *proto.output, *filter(None, [proto.name])]


def _line(proto: NodeProto, stage: Stage) -> _Line:
    doc, metadata = proto.doc_string == DOC, any(entry.key == DOC for entry in proto.metadata_props)
    notes = [*(["doc_string"] if doc else []), *(["metadata_props"] if metadata else [])]
    rest = NodeProto()
    rest.CopyFrom(proto)
    for field in ("input", "output", "name", *notes):
        rest.ClearField(field)
    fields = [NodeProto.INPUT_FIELD_NUMBER] * len(proto.input) + [NodeProto.OUTPUT_FIELD_NUMBER] * len(proto.output)
    form, places = b"", list[str]()
    for number, name in zip([*fields, NodeProto.NAME_FIELD_NUMBER], _names(proto), strict=False):
        is_place = name.startswith(MARK)
        form += tag(number) + (b"%b" if is_place else _literal(sized(name.encode())))
        places += [name] if is_place else []
    holds_graphs = any(True for _ in subgraphs(proto))
    rest_as_bytes = rest.SerializeToString()
    return _Line(
        form if holds_graphs else form + _literal(rest_as_bytes),
        itemgetter(*places),
        tuple(proto.output),
        _opset(proto, stage),
        rest_as_bytes if holds_graphs else b"",
        doc,
        metadata,
    )


def _literal(data: bytes) -> bytes:
    """Bytes that formatting leaves as they are."""
    return data.replace(b"%", b"%%")


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
) -> list[NodeProto | bytes]:
    """What takes the place of the call: itself, edited, and made nodes, which are given as they are in a file."""
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
    spelled = {place: sized(names[place].encode()) for place in script.names}
    result: list[NodeProto | bytes] = []
    for line in script.lines:
        if isinstance(line, _Edit):
            _apply(line, proto, names)
            result.append(proto)
        else:
            made = line.form % line.pick(spelled)
            if line.graphs or line.doc or line.metadata:
                made += _particulars(line, proto, names)
            result.append(made)
    for place in script.outputs:
        name = names[place]
        scope.later[name] = script, result
        if place in script.typed:
            scope.typed[name] = script.typed[place]
    if script.edits:
        script.recall(result, scope)
    if context.released:
        context.released.difference_update([names.get(name, name) for name in script.read])
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


def _particulars(line: _Line, proto: NodeProto, names: dict[str, str]) -> bytes:
    """What a made node holds besides its names that is not the same for all calls."""
    rest = NodeProto.FromString(line.graphs)
    _fill(rest, names)
    if line.doc:
        rest.doc_string = proto.doc_string
    if line.metadata:
        rest.metadata_props.extend(proto.metadata_props)
    return rest.SerializeToString()


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

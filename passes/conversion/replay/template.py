"""Scripts: what steps did to a stand-in, written once and played for each call like it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from opshift.passes.analysis import evaluate
from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.conversion.replay.recording import (
    DOC,
    INPUTS,
    MARK,
    NAME,
    OUTPUTS,
    Event,
    StandInScope,
    Unrepeatable,
)
from opshift.passes.model.encoding.fields import prefix_length, tag
from opshift.passes.model.messages import FunctionProto, GraphProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.records import dataclass

_FIELDS = {body: tag(body.NODE_FIELD_NUMBER) for body in (GraphProto, FunctionProto)}


@dataclass(frozen=True)
class _Line:
    """A node of a script as bytes, with gaps for names.

    `graphs` is empty, or what is behind the names of a node that holds graphs.
    """

    form: bytes
    pick: Callable[[Sequence[bytes]], Any]
    outputs: tuple[str, ...]
    opset: int
    graphs: bytes
    doc: bool
    metadata: bool


@dataclass(frozen=True)
class _Ask:
    """A request for a fresh name, or for the constant with `key`; numbers in `hint` stand for earlier names."""

    hint: tuple[int | str, ...]
    tensor: TensorProto | None
    key: bytes


@dataclass(frozen=True)
class _AskAll:
    """A request for fresh names: the name with the number `stem`, a slash, and a tail."""

    stem: int
    tails: tuple[str, ...]


class Output(NamedTuple):
    """An output of the call, with its type and element type if known; `like` is a value of the same element type."""

    number: int
    value_type: TypeProto | None
    elem_type: int
    like: int | None


@dataclass(frozen=True)
class Script:
    """Names go by their number: those of the call, then those that are asked for.

    It `edits` a call that stays a call of the same operator, and makes nothing else. `outputs` are the values of the
    call that are made again. Where it is `opaque`, none of them can be evaluated, whatever the inputs hold.
    """

    places: tuple[str, ...]
    asks: tuple[_Ask | _AskAll, ...]
    lines: tuple[_Line, ...]
    changes: tuple[tuple[int, tuple[Any, ...]], ...]
    typed: dict[str, TypeProto]
    released: tuple[int, ...]
    descended: tuple[int, ...]
    outputs: tuple[Output, ...]
    read: tuple[int, ...]
    edits: bool
    opaque: bool

    def recall(self, made: Sequence[NodeProto | bytes], scope: Scope) -> None:
        """Tell the scope about the nodes of a replay. Runs only once somebody asks about their outputs."""
        for line, data in zip(self.lines, made, strict=True):
            node = type(scope.body).FromString(data).node[0] if isinstance(data, bytes) else data
            for place, name in zip(line.outputs, node.output, strict=True):
                scope.later.pop(name, None)
                scope.made[name] = node, line.opset
                if place in self.typed and place not in OUTPUTS:
                    scope.typed[name] = self.typed[place]


def write(stage: StandInScope, call: NodeProto, done: list[NodeProto], changes: Sequence[Change]) -> Script:
    """Write the script that turns a call like `call` into nodes like `done`. Runs at the end of a rehearsal."""
    if any(isinstance(text, str) and MARK in text for change in changes for text in change[1:]):
        raise Unrepeatable
    new_names = {name for proto in done for name in proto.output}
    places = (*places_of(call), *(event.place for event in stage.events))
    number = {place: index for index, place in enumerate(places)}

    def numbers(names: Iterable[str]) -> tuple[int, ...]:
        return tuple(number[name] for name in names if name)

    return Script(
        places,
        tuple(_list_asks(stage.events, number)),
        tuple(_write_line(proto, stage, number) for proto in done),
        tuple((number[change.node], tuple(change[1:])) for change in changes),
        {name: value_type for name, value_type in stage.typed.items() if name in new_names},
        numbers(stage.context.released),
        numbers(stage.context.descended),
        tuple(_output(name, stage, number) for name in OUTPUTS if name in new_names),
        numbers({name for proto in done for name in proto.input}),
        [(proto.domain, proto.op_type) for proto in done] == [(call.domain, call.op_type)],
        {name for name in OUTPUTS if name in new_names} <= evaluate.opaque(done),
    )


def _output(name: str, stage: StandInScope, number: Mapping[str, int]) -> Output:
    elem_type, like = stage.followed_elem_type(name)
    return Output(number[name], stage.typed.get(name), elem_type, number[like] if like in INPUTS else None)


def _list_asks(events: Iterable[Event], number: Mapping[str, int]) -> Iterator[_Ask | _AskAll]:
    """List the names and constants that a recording asked for. Part of `write`."""
    for stem, asked in groupby(events, lambda event: None if event.tensor else _stem(event.hint)):
        if stem is not None:
            yield _AskAll(number[stem], tuple(event.hint[1] for event in asked))
            continue
        for event in asked:
            yield _Ask(tuple(number.get(part, part) for part in event.hint), event.tensor, event.key)


def _stem(hint: tuple[str, ...]) -> str | None:
    return hint[0] if len(hint) == 2 and hint[0].startswith(MARK) and "/" in hint[1] else None


def places_of(call: NodeProto) -> tuple[str, ...]:
    """List the placeholders of a call, in the order of its names."""
    return (*INPUTS[: len(call.input)], *OUTPUTS[: len(call.output)], NAME)


def _opset(proto: NodeProto, stage: StandInScope) -> int:
    return stage.made[next(filter(None, proto.output))][1]


def _write_line(proto: NodeProto, stage: StandInScope, number: Mapping[str, int]) -> _Line:
    """Write a new node as bytes with gaps for names, so that a replay only fills these in. Part of `write`."""
    doc, metadata = proto.doc_string == DOC, any(entry.key == DOC for entry in proto.metadata_props)
    notes = [*(["doc_string"] if doc else []), *(["metadata_props"] if metadata else [])]
    rest = NodeProto()
    rest.CopyFrom(proto)
    for field in ("input", "output", "name", *notes):
        rest.ClearField(field)
    fields = [NodeProto.INPUT_FIELD_NUMBER] * len(proto.input) + [NodeProto.OUTPUT_FIELD_NUMBER] * len(proto.output)
    form, picked = b"", list[int]()
    names = [*proto.input, *proto.output, *filter(None, [proto.name])]
    for field_number, name in zip([*fields, NodeProto.NAME_FIELD_NUMBER], names, strict=False):
        form += tag(field_number) + (b"%b" if name in number else _literal(prefix_length(name.encode())))
        picked += [number[name]] if name in number else []
    holds_graphs = any(True for _ in subgraphs(proto))
    rest_as_bytes = rest.SerializeToString()
    return _Line(
        form if holds_graphs else form + _literal(rest_as_bytes),
        itemgetter(*picked),
        tuple(proto.output),
        _opset(proto, stage),
        rest_as_bytes if holds_graphs else b"",
        doc,
        metadata,
    )


def _literal(data: bytes) -> bytes:
    """Escape bytes so that formatting keeps them."""
    return data.replace(b"%", b"%%")


def play(
    script: Script, proto: NodeProto, names: list[str], scope: Scope, changes: list[Change]
) -> list[NodeProto | bytes]:
    """Play a script for one call; returns the edited call, or the nodes that replace it.

    Runs for each call that is replayed and needs more than a patch. `names` are those of the call; fresh names and
    constants that the script asks for are added to it.
    """
    context = scope.context
    spelled = [prefix_length(name.encode()) for name in names]
    for ask in script.asks:
        if isinstance(ask, _AskAll):
            fresh_names = context.names.fresh_all(names[ask.stem], ask.tails)
            names += fresh_names
            spelled += [prefix_length(name.encode()) for name in fresh_names]
        else:
            name, as_bytes = scope.spelled.get(ask.key) or _get_asked(ask, names, scope)
            names.append(name)
            spelled.append(as_bytes)
    if script.released:
        context.released.update([names[number] for number in script.released])
    if script.descended:
        context.descended.update([names[number] for number in script.descended])
    for number, rest in script.changes:
        changes.append(tuple.__new__(Change, (names[number], *rest)))
    result: list[NodeProto | bytes] = []
    for line in script.lines:
        encoded = line.form % line.pick(spelled)
        if line.graphs or line.doc or line.metadata:
            encoded += _encode_particulars(line, proto, dict(zip(script.places, names, strict=True)))
        if script.edits:
            proto.ParseFromString(encoded)
            result.append(proto)
        else:
            result.append(_FIELDS[type(scope.body)] + prefix_length(encoded))
    recall_later(script, result, names, scope)
    if context.released:
        context.released.difference_update([names[number] for number in script.read])
    return result


def recall_later(script: Script, made: Sequence[NodeProto | bytes], names: Sequence[str], scope: Scope) -> None:
    """Tell the scope how to look up what is known of the new values, when it is asked."""
    later, known = (script, made), scope.elem_types
    for number, value_type, elem_type, like in script.outputs:
        name = names[number]
        scope.later[name] = later
        if value_type is not None:
            scope.typed[name] = value_type
        elif like is not None and scope.source.declared_type(name) is None:
            elem_type = known.get(names[like], 0)
        if elem_type:
            known[name] = elem_type


def _get_asked(ask: _Ask, names: Sequence[str], scope: Scope) -> tuple[str, bytes]:
    """Get a fresh name or a shared constant for a call that is replayed; returns it, also as bytes. Part of `play`."""
    hint = "".join([part if isinstance(part, str) else names[part] for part in ask.hint])
    if ask.tensor is None:
        fresh = scope.context.names.fresh(hint)
        return fresh, prefix_length(fresh.encode())
    shared = scope.shared.get(ask.key) or scope.constant(ask.tensor, hint)
    assert shared is not None, "the script of a graph is not played in a function"
    scope.spelled[ask.key] = shared, prefix_length(shared.encode())
    return scope.spelled[ask.key]


def _encode_particulars(line: _Line, proto: NodeProto, names: dict[str, str]) -> bytes:
    """Encode what differs in a new node from call to call, besides names. Part of `play`."""
    rest = NodeProto.FromString(line.graphs)
    _fill(rest, names)
    if line.doc:
        rest.doc_string = proto.doc_string
    if line.metadata:
        rest.metadata_props.extend(proto.metadata_props)
    return rest.SerializeToString()


def _fill(node: NodeProto, names: Mapping[str, str]) -> None:
    """Replace the placeholders in a node's subgraphs. Part of `play`."""
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

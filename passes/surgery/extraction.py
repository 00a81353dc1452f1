"""Cuts a part out of a model: the nodes between some values, or those around a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opshift.passes.inputs import matching
from opshift.passes.inputs.interface import check_name
from opshift.passes.inputs.parts import Cut
from opshift.passes.model.encoding.fields import retain
from opshift.passes.model.messages import ModelProto, TypeProto, normalize_domain
from opshift.passes.model.pieces import Pieces
from opshift.passes.model.traversal import Body, with_nested
from opshift.passes.records import dataclass
from opshift.passes.specialization.door import types_of as infer_types


@dataclass(frozen=True)
class Border:
    """Where a part begins and ends.

    Attributes:
        inputs: values of the model that the part is given, in the place of what makes them.
        outputs: the values that it yields.
        nodes: how many nodes it has.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: int


def find_border(model: ModelProto, asked: Cut) -> Border:
    """Find where the part begins and ends.

    Raises:
        ValueError: the model has no such value or node, or a value is not on the way to the outputs.
    """
    pieces = Pieces(model)
    if asked.around:
        return _ends_around(pieces, asked)
    outputs = [value.name for value in model.graph.output if value.name in pieces.makers]
    if asked.to:
        outputs = list(
            dict.fromkeys(name for text in asked.to for name in _select_values(pieces, text, [*pieces.makers]))
        )
    held = [*pieces.makers, *pieces.given, *pieces.held]
    start = list(dict.fromkeys(name for text in asked.start for name in _select_values(pieces, text, held)))
    named = set(start)
    start, nodes = _with_siblings(pieces, outputs, start)
    read = {name for index in nodes for name in pieces.reads(index)}
    for name in start if not any("*" in text for text in asked.start) else ():
        if name in outputs and name not in read:
            raise ValueError(f"{name!r} is an output of the part to extract, but no node after it belongs to the part")
        if name not in read and name in named:
            ways = ", ".join(map(repr, outputs[:3])) + (" and others" if len(outputs) > 3 else "")
            raise ValueError(f"{name!r} does not lead to {ways}")
    fresh = [name for name in start if name in read and name not in pieces.given]
    return Border(tuple(fresh), tuple(outputs), len(nodes))


def _with_siblings(pieces: Pieces, outputs: list[str], start: list[str]) -> tuple[list[str], list[int]]:
    """The values that the part is given, and its nodes: what makes one of these stays out, whatever else it makes."""
    while True:
        nodes, _ = pieces.between(outputs, start)
        made = {name for index in nodes for name in pieces.nodes[index].output}
        split = {pieces.makers[name] for name in start if name in made and name not in outputs}
        more = [name for index in sorted(split) for name in pieces.nodes[index].output if name and name not in start]
        if not more:
            return start, nodes
        start = [*start, *more]


def _select_values(pieces: Pieces, text: str, among: Sequence[str]) -> list[str]:
    """The values that a name stands for: its own, those of the node of that name, or all that are like a pattern."""
    if text not in among and (node := next((n for n in pieces.nodes if n.name == text), None)) is not None:
        return [name for name in node.output if name]
    if "*" not in text and text not in among:
        check_name(text, [*among, *filter(None, (node.name for node in pieces.nodes))], "value or node")
    return matching.select(text, among, "value")


def _ends_around(pieces: Pieces, asked: Cut) -> Border:
    """The ends of what is around a node, with all that hangs on no input."""
    center = _find_node(pieces, asked.around)
    constant = _find_constant(pieces)
    inside, border = {center}, [center]
    for _ in range(asked.depth):
        border = [near for index in border for near in _neighbours(pieces, index) if near not in constant]
        border = [near for near in dict.fromkeys(border) if near not in inside]
        inside.update(border)
    made = {name for index in inside for name in pieces.nodes[index].output if name}
    read = {name for index in inside for name in pieces.reads(index)} - made
    inputs = [name for name in pieces.makers if name in read and pieces.makers[name] not in constant]
    outer = {value.name for value in pieces.model.graph.output}
    outputs = [
        name
        for name in pieces.makers
        if name in made and (name in outer or any(reader not in inside for reader in pieces.readers(name)))
    ]
    outputs = outputs or [name for name in pieces.nodes[center].output if name]
    nodes, _ = pieces.between(outputs, inputs)
    return Border(tuple(inputs), tuple(outputs), len(nodes))


def _find_node(pieces: Pieces, name: str) -> int:
    """A node of the main graph, by its name or that of a value that it makes."""
    if name in pieces.makers:
        return pieces.makers[name]
    for index, node in enumerate(pieces.nodes):
        if node.name == name:
            return index
    for node in pieces.nodes:
        inner = with_nested([attribute.g for attribute in node.attribute if attribute.HasField("g")])
        if any(name in (held.name, *held.output) for body in inner for held in body.node):
            raise ValueError(
                f"{name!r} is inside a subgraph of {node.name or node.output[0]!r}; give the name of that node"
            )
    check_name(name, [*filter(None, (node.name for node in pieces.nodes)), *pieces.makers], "node")
    raise AssertionError("known raises")


def _find_constant(pieces: Pieces) -> set[int]:
    """Find the nodes that hang on no input."""
    found: set[int] = set()
    fixed = {*pieces.held, *pieces.sparse}.difference(value.name for value in pieces.model.graph.input)
    for index, node in enumerate(pieces.nodes):
        if fixed.issuperset(pieces.reads(index)) and not node.op_type.startswith("Random"):
            found.add(index)
            fixed.update(filter(None, node.output))
    return found


def _neighbours(pieces: Pieces, index: int) -> list[int]:
    made = [pieces.makers[name] for name in pieces.reads(index) if name in pieces.makers]
    return made + [reader for name in pieces.nodes[index].output if name for reader in pieces.readers(name)]


def types_of(model: ModelProto, border: Border) -> dict[str, TypeProto]:
    """The types of what a part is given and yields, as far as they are known without a run."""
    return infer_types(model, [*border.inputs, *border.outputs])


def cut_out(model: ModelProto, border: Border, types: Mapping[str, TypeProto]) -> ModelProto:
    """The part as a model of its own; it shares no message with the whole, and refers to the same weights in files."""
    part = Pieces(model).cut(border.outputs, {name: types[name] for name in border.inputs})
    graph, whole = part.graph, model.graph
    declared = {value.name: value for value in whole.output}
    for value in graph.output:
        if value.name not in declared and value.name in types:
            value.type.CopyFrom(types[value.name])
    for field in ("doc_string", "producer_name", "producer_version", "domain", "model_version"):
        if getattr(model, field):
            setattr(part, field, getattr(model, field))
    part.metadata_props.extend(model.metadata_props)
    graph.name = whole.name
    ends_of_part = {value.name for value in (*graph.input, *graph.output)}
    there = {name for node in graph.node for name in node.output} | {tensor.name for tensor in graph.initializer}
    graph.value_info.extend(
        value for value in whole.value_info if value.name in there and value.name not in ends_of_part
    )
    graph.quantization_annotation.extend(
        note for note in whole.quantization_annotation if note.tensor_name in there | ends_of_part
    )
    _drop_functions(part)
    return part


def _drop_functions(part: ModelProto) -> None:
    """Drop the functions that nothing calls."""
    if not part.functions:
        return
    held = {(normalize_domain(f.domain), f.name, f.overload): f for f in part.functions}
    called = set[tuple[str, str, str]]()
    pending: list[Body] = [part.graph]
    while pending:
        body = pending.pop()
        for node in (node for inner in with_nested([body]) for node in inner.node):
            key = normalize_domain(node.domain), node.op_type, node.overload
            if key in held and key not in called:
                called.add(key)
                pending.append(held[key])
    retain(part.functions, [(normalize_domain(f.domain), f.name, f.overload) in called for f in part.functions])

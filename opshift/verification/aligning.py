"""Rename values of the second model so that equal names mean equal values.

Exporters number values: one more node at the beginning shifts the names of all values behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opshift.passes.model import tensor_data
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import NodeProto, TensorProto, normalize_domain
from opshift.passes.model.traversal import may_hold, own_names, subgraphs, with_nested
from opshift.passes.records import replace
from opshift.verification.parts import rename_values
from opshift.verification.regions import Body
from opshift.verification.side import Side

_EITHER_ORDER = frozenset(["Add", "And", "Equal", "Max", "Min", "Mul", "Or", "Sum", "Xor"])


def align(before: Body, after: Body) -> Side:
    """Rename values of the second model as in the first, if the same nodes compute them; returns the second model.

    Nodes are paired from the inputs forward, and then from the outputs backward.
    """
    numbers: dict[Any, int] = {}
    ours, theirs = (_number_values(body, numbers) for body in (before, after))
    named: dict[int, list[str]] = {}
    for name, number in ours.items():
        named.setdefault(number, []).append(name)
    kept = {
        value.name
        for body in (before, after)
        for value in (*body.side.model.graph.input, *body.side.model.graph.output)
    }
    pairs = {name: name for name in kept}
    pairs.update((name, name) for name, number in theirs.items() if ours.get(name) == number)
    taken = set(pairs.values())
    for name, number in theirs.items():
        free = [one for one in named.get(number, ()) if one not in taken] if name not in pairs else ()
        if free:
            pairs[name] = free[0]
            taken.add(free[0])
    for one, other in _pair_backwards(before, after, ours, theirs):
        if other not in pairs and one not in taken:
            pairs[other] = one
            taken.add(one)
    moved = [name for name, one in pairs.items() if name != one]
    left = [name for name in theirs if name not in pairs and name in ours]
    if len(moved) > len(left):  # the others have equal names by chance
        pairs.update((name, f"{name}~second") for name in left)
    graph = after.side.model.graph
    inside = set[str]().union(*(own_names(body) for body in with_nested([graph]) if body is not graph))
    names = {other: one for other, one in pairs.items() if other != one and one not in inside}
    gone = set(names.values()).intersection(theirs).difference(names)
    names |= {name: f"{name}~second" for name in gone}
    return replace(after.side, model=rename_values(after.side.model, names)) if names else after.side


def _number_values(body: Body, numbers: dict[Any, int]) -> dict[str, int]:
    """Number the values of a body: the same number for the same computation from the same inputs and constants."""
    found = {name: numbers.setdefault(("input", name), len(numbers)) for name in body.pieces.given}
    for name, tensor in body.constants.items():
        found[name] = numbers.setdefault(_content(tensor, body.side), len(numbers))
    for node in body.pieces.nodes:
        if any(name in body.constants for name in node.output):
            continue
        reads = [found.get(name, -1) for name in node.input]
        if node.op_type == "Identity" and not normalize_domain(node.domain):
            found[node.output[0]] = reads[0]
            continue
        if node.op_type in _EITHER_ORDER:
            reads.sort()
        key = *_operator(node, body, found), *reads
        for place, name in enumerate(node.output):
            if name:
                found[name] = numbers.setdefault((key, place), len(numbers))
    return found


def _operator(node: NodeProto, body: Body, numbers: Mapping[str, int]) -> tuple[Any, ...]:
    """Describe what a node computes, with the numbers of what its subgraphs read."""
    if may_hold(node) and any(True for _ in subgraphs(node)):
        reads = body.pieces.reads(body.pieces.makers[next(filter(None, node.output))])
        copy = NodeProto()
        copy.CopyFrom(node)
        rename([copy], {name: f"~{numbers.get(name, -1)}" for name in reads})
        node = copy
    attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
    function = body.functions.get((normalize_domain(node.domain), node.op_type, node.overload))
    text = function.SerializeToString(deterministic=True) if function is not None else b""
    return normalize_domain(node.domain), node.op_type, text, len(node.output), len(node.input), *attributes


def _content(tensor: TensorProto, side: Side) -> tuple[Any, ...]:
    if tensor_data.is_stored(tensor):
        place = tensor_data.place(tensor)
        return "stored", side.folder, place.location, place.offset, tensor.data_type, *tensor.dims
    data = tensor.raw_data
    if not data:
        copy = TensorProto()
        copy.CopyFrom(tensor)
        copy.ClearField("name")
        data = copy.SerializeToString(deterministic=True)
    return "constant", tensor.data_type, *tensor.dims, hash(data)


def _pair_backwards(
    before: Body, after: Body, ours: Mapping[str, int], theirs: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Pair the inputs of nodes of one operator that compute values that are paired, from the outputs on."""
    waiting = [(name, name) for name in before.outputs]
    seen = set(before.outputs)
    while waiting:
        one, other = waiting.pop()
        places = before.pieces.makers.get(one), after.pieces.makers.get(other)
        if places[0] is None or places[1] is None or one in before.constants or other in after.constants:
            continue
        a, b = before.pieces.nodes[places[0]], after.pieces.nodes[places[1]]
        if _operator(a, before, ours) != _operator(b, after, theirs):
            continue
        for first, second in zip(a.input, b.input, strict=True):
            second = first if set(a.input) == set(b.input) else second
            if first and first not in seen and first in before.pieces.makers and second in after.pieces.makers:
                seen.add(first)
                yield first, second
                waiting.append((first, second))

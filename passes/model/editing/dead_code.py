"""Nodes and initializers that nothing reads: found among the nodes of a call, in a body, and across a whole model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from opshift.passes.model.encoding.fields import retain
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)
from opshift.passes.model.traversal import Body, bodies, may_hold, results, subgraphs, with_nested


def drop_unused(model: ModelProto, released: set[str], held: Sequence[Body] | None = None) -> bool:
    """Remove initializers and nodes that made only values in `released`, once nothing uses them any more.

    What they hung on is looked at next. Graph inputs and outputs stay. Returns whether there were such nodes.
    `held` are the model's bodies, if they are known.
    """
    unused = _find_unread(bodies(model) if held is None else held, released)
    if not unused:
        return False
    held = list(bodies(model)) if held is None else held
    if unused <= {tensor.name for body in held for tensor in getattr(body, "initializer", ())}:
        for body in held:
            _drop(body, set(), unused)
        return False
    uses = Counter(chain.from_iterable(_reads(body) for body in held))
    makers: dict[str, list[tuple[int, int]]] = {}
    for b, body in enumerate(held):
        for i, node in enumerate(body.node):
            for name in node.output:
                makers.setdefault(name, []).append((b, i))
    dead: dict[int, set[int]] = {b: set() for b in range(len(held))}
    pending, seen = list(unused), set(unused)
    while pending:
        for b, i in makers.get(pending.pop(), ()):
            node = held[b].node[i]
            if i in dead[b] or not all(name in seen for name in node.output if name):
                continue
            dead[b].add(i)
            uses.subtract(given_up := names_read(node))
            fresh = {name for name in given_up if name and not uses[name]} - seen
            seen |= fresh
            pending += fresh
    for b, body in enumerate(held):
        _drop(body, dead[b], seen)
    return any(dead.values())


_READ = attrgetter("input")
_AT_ONCE = 1024  # nodes


def _find_unread(held: Iterable[Body], names: set[str]) -> set[str]:
    """Find names that nothing reads; stops once all names were seen to be read."""
    missing = {name for name in names if name}
    for body in held if missing else ():
        missing.difference_update(results(body))
        for start in range(0, len(body.node), _AT_ONCE):
            missing.difference_update(chain.from_iterable(map(_READ, body.node[start : start + _AT_ONCE])))
            if not missing:
                return missing
    return missing


def _reads(body: Body) -> list[str]:
    return [*chain.from_iterable([node.input for node in body.node]), *results(body)]


def names_read(node: NodeProto) -> list[str]:
    """List the values that a node and its subgraphs read, without those that the subgraphs make."""
    inner = _inside(node)
    made = {name for body in inner for held in body.node for name in held.output}
    return [*node.input, *(name for body in inner for name in _reads(body) if name not in made)]


def _inside(node: NodeProto) -> list[Body]:
    """The graphs that a node holds, and those in them."""
    return list(with_nested([graph for _, _, graph in subgraphs(node)])) if node.attribute else []


def _drop(body: Body, dead: set[int], unused: set[str]) -> None:
    if dead:
        retain(body.node, [i not in dead for i in range(len(body.node))])
    if isinstance(body, FunctionProto):
        return
    unused = unused - {value.name for value in body.input} if body.initializer else set()
    _retain(body.initializer, [tensor.name not in unused for tensor in body.initializer])


def _retain(held: Any, kept: list[bool]) -> None:
    if not all(kept):
        retain(held, kept)


def live(
    nodes: Sequence[NodeProto], needed: set[str], within: Callable[[NodeProto], set[str]] | None = None
) -> list[bool]:
    """Which nodes make what is `needed`, or what those read that do; their names are added to it.

    The nodes stand in their order. `within` tells what the graphs read that a node holds.
    """
    kept = [False] * len(nodes)
    for index, node in reversed([*enumerate(nodes)]):
        outputs = node.output[:]
        if outputs and needed.isdisjoint(outputs):
            continue
        kept[index] = True
        needed.update(filter(None, node.input[:]))
        if may_hold(node) and node.attribute:
            needed |= {name for body in _inside(node) for name in _reads(body)} if within is None else within(node)
    return kept


def sweep(body: Body, fixed: frozenset[str], gone: Callable[[NodeProto], None]) -> set[str]:
    """Drop what nobody reads from a body and the graphs in it, but for `fixed` names; returns all that are read there.

    `gone` is told of each node before it goes.
    """

    def within(node: NodeProto) -> set[str]:
        return {name for _, _, graph in subgraphs(node) for name in sweep(graph, fixed, gone)}

    needed = {*results(body), *fixed}
    kept = live(body.node, needed, within)
    for index, keep in enumerate(kept):
        if not keep:
            gone(body.node[index])
    _retain(body.node, kept)
    if isinstance(body, GraphProto):
        _sweep_constants(body, needed)
    return needed


def _sweep_constants(graph: GraphProto, needed: set[str]) -> None:
    """Drop initializers that nobody reads, and what is said of values that there are no more, or wrongly of constants.

    Of a Constant node, nobody minds what is said; of the initializer that it becomes, onnx.checker does.
    """
    given = {value.name for value in graph.input}
    _retain(graph.initializer, [tensor.name in needed or tensor.name in given for tensor in graph.initializer])
    if graph.value_info:
        there = given.union(*[node.output[:] for node in graph.node])
        held = {tensor.name: tensor for tensor in graph.initializer}
        stated = [
            value.name in there or (value.name in held and is_stated(held[value.name], value))
            for value in graph.value_info
        ]
        _retain(graph.value_info, stated)


def is_stated(tensor: TensorProto, value: ValueInfoProto) -> bool:
    """Whether the type that is stated of a constant is its own; an omitted shape confuses shape inference, too."""
    stated = value.type.tensor_type
    dims = [dim.dim_value for dim in stated.shape.dim]
    return stated.elem_type == tensor.data_type and stated.HasField("shape") and dims == list(tensor.dims)

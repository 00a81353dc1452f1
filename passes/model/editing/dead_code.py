"""Removes what the conversion itself made redundant, and nothing else."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from opshift.passes.model.encoding.fields import retain
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto
from opshift.passes.model.traversal import Body, _results, bodies, subgraphs, with_nested


def drop_unused(model: ModelProto, released: set[str]) -> bool:
    """Remove initializers and nodes that made only values in `released`, once nothing uses them any more.

    What they hung on is looked at next. Graph inputs and outputs stay. Returns whether there were such nodes.
    """
    unused = _unused(model, released)
    if not unused:
        return False
    held = list(bodies(model))
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
            uses.subtract(freed := _freed(node))
            fresh = {name for name in freed if name and not uses[name]} - seen
            seen |= fresh
            pending += fresh
    for b, body in enumerate(held):
        _drop(body, dead[b], seen)
    return any(dead.values())


def _unused(model: ModelProto, names: set[str]) -> set[str]:
    """Those of `names` that nothing reads; the search ends where all of them are found."""
    missing = {name for name in names if name}
    for body in bodies(model):
        if not missing:
            break
        missing.difference_update(_results(body))
        for node in body.node:
            if not missing.isdisjoint(node.input):
                missing.difference_update(node.input)
                if not missing:
                    break
    return missing


def _reads(body: Body) -> list[str]:
    return [*chain.from_iterable([node.input for node in body.node]), *_results(body)]


def _freed(node: NodeProto) -> list[str]:
    """What a node reads, and what the graphs that it holds read from outside: what they make goes with them."""
    inner = list(with_nested([graph for _, _, graph in subgraphs(node)]))
    made = {name for body in inner for held in body.node for name in held.output}
    return [*node.input, *(name for body in inner for name in _reads(body) if name not in made)]


def _drop(body: Body, dead: set[int], unused: set[str]) -> None:
    if dead:
        retain(body.node, [i not in dead for i in range(len(body.node))])
    if isinstance(body, FunctionProto):
        return
    unused = unused - {value.name for value in body.input} if body.initializer else set()
    kept = [tensor.name not in unused for tensor in body.initializer]
    if not all(kept):
        retain(body.initializer, kept)

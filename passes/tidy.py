"""Removes what the conversion itself made redundant, and nothing else."""

from __future__ import annotations

from opshift.passes.names import bodies
from opshift.passes.protos import FunctionProto, GraphProto, ModelProto, NodeProto


def drop_unused(model: ModelProto, released: set[str]) -> None:
    """Remove initializers and nodes that made only values in `released`, once nothing uses them any more.

    What they hung on is looked at next. Graph inputs and outputs stay.
    """
    while released:
        used = _used(model, released)
        candidates, released = released - used, set()
        if not candidates:
            return
        for body in bodies(model):
            released |= _drop_nodes(body, candidates)
            if isinstance(body, GraphProto):
                _drop_initializers(body, candidates)


def _used(model: ModelProto, names: set[str]) -> set[str]:
    used: set[str] = set()
    for body in bodies(model):
        for node in body.node:
            used.update(name for name in node.input if name in names)
        outputs = body.output if isinstance(body, FunctionProto) else [value.name for value in body.output]
        used.update(name for name in outputs if name in names)
    return used


def _drop_nodes(body: GraphProto | FunctionProto, unused: set[str]) -> set[str]:
    dead = [i for i, n in enumerate(body.node) if n.output and all(not o or o in unused for o in n.output)]
    freed = {name for i in dead for name in _inputs(body.node[i])}
    for index in reversed(dead):
        del body.node[index]
    return freed


def _inputs(node: NodeProto) -> list[str]:
    return [name for name in node.input if name]


def _drop_initializers(graph: GraphProto, unused: set[str]) -> None:
    unused = unused - {value.name for value in graph.input}
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name in unused:
            del graph.initializer[index]

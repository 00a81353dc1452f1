"""Makes smaller what functions and subgraphs hold: nodes, inputs and results that nobody needs go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from tests.random.models import Source
from tests.runtime import every_node

FIRST_STACKED = {"If": 0, "Scan": 0, "Loop": 1}  # how many results of a body come before those of the node


def copied(model: ModelProto) -> ModelProto:
    made = ModelProto()
    made.CopyFrom(model)
    return made


def plain(model: ModelProto) -> ModelProto:
    for entry in [i for i in model.opset_import if i.domain not in ("", "ai.onnx.ml")]:
        model.opset_import.remove(entry)
    return model


def pruned(source: Source, model: ModelProto) -> Source:
    """Without nodes, inputs and constants that no output needs."""
    needed = {o.name for o in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= {n for inner in every_node([node]) for n in inner.input}
            needed |= {o.name for inner in every_node([node]) for a in inner.attribute for o in a.g.output}
    nodes = kept[::-1]
    inputs = [v for v in model.graph.input if v.name in needed]
    constants = [t for t in model.graph.initializer if t.name in needed]
    for held, rest in ((model.graph.node, nodes), (model.graph.input, inputs), (model.graph.initializer, constants)):
        rest = list(rest)
        del held[:]  # type: ignore[arg-type]
        held.extend(rest)  # type: ignore[arg-type]
    called = {
        (n.domain, n.op_type) for b in (model.graph.node, *(f.node for f in model.functions)) for n in every_node(b)
    }
    functions = [f for f in model.functions if (f.domain, f.name) in called]
    del model.functions[:]
    model.functions.extend(functions)
    return replace(source, model=model, feeds={k: v for k, v in source.feeds.items() if k in needed})


def unread(source: Source) -> Iterator[Source]:
    """Without a result of a function or a subgraph that nobody reads, and without what computes it."""
    read = _read(source.model)
    for at, function in enumerate(source.model.functions):
        for index, _ in enumerate(function.output):
            calls = [n for n in _nodes(source.model) if (n.domain, n.op_type) == (function.domain, function.name)]
            if len(function.output) > 1 and not any(set(n.output[index : index + 1]) & read for n in calls):
                yield _without_result(source, at, index)
        for formal in reversed(range(len(function.input))):
            if function.input[formal] not in _needed(function.node):
                yield _without_formal(source, at, formal)
    for at, node in enumerate(_nodes(source.model)):
        if node.op_type in FIRST_STACKED and len(node.output) > 1:
            for index, name in enumerate(node.output):
                if name not in read and index >= len(node.input) - 2:
                    made = copied(source.model)
                    held = list(_nodes(made))[at]
                    del held.output[index]
                    for attribute in held.attribute:
                        if attribute.type == AttributeProto.GRAPH:
                            del attribute.g.output[index + FIRST_STACKED[node.op_type]]
                            _sweep(attribute.g)
                    yield pruned(source, made)


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    for body in (model.graph.node, *(function.node for function in model.functions)):
        yield from every_node(body)


def _needed(nodes: Any) -> set[str]:
    inner = list(every_node(nodes))
    return {n for node in inner for n in node.input} | {o.name for n in inner for a in n.attribute for o in a.g.output}


def _read(model: ModelProto) -> set[str]:
    """All names that something reads, wherever it is."""
    outputs = {o.name for o in model.graph.output} | {o for function in model.functions for o in function.output}
    return outputs.union(*(_needed(body) for body in (model.graph.node, *(f.node for f in model.functions))))


def _without_result(source: Source, at: int, index: int) -> Source:
    made = copied(source.model)
    function = made.functions[at]
    for node in _nodes(made):
        if (node.domain, node.op_type) == (function.domain, function.name) and index < len(node.output):
            del node.output[index]
    del function.output[index]
    _sweep(function)
    return pruned(source, made)


def _without_formal(source: Source, at: int, index: int) -> Source:
    made = copied(source.model)
    function = made.functions[at]
    for node in _nodes(made):
        if (node.domain, node.op_type) == (function.domain, function.name) and index < len(node.input):
            del node.input[index]
    del function.input[index]
    return pruned(source, made)


def _sweep(body: FunctionProto | GraphProto) -> None:
    """Remove the nodes of a body that none of its results needs."""
    needed = {o if isinstance(o, str) else o.name for o in body.output}
    kept = []
    for node in reversed(body.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= _needed([node])
    del body.node[:]
    body.node.extend(kept[::-1])

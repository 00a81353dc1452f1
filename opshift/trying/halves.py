"""Run a model with each value rounded to half precision, to see how far off a backend may be that computes so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opshift.passes.analysis.scope import open_main_graph
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing.names import Names
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto
from opshift.verification.engines import EngineError
from opshift.verification.side import Side

_FLOAT, _HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def run_in_halves(side: Side, feeds: Sequence[Any]) -> list[Sequence[Any]]:
    """The outputs for each of the inputs; none where no engine runs the rounded model."""
    try:
        session = replace(side, model=round_to_half(side.model, side.folder)).open()
        return [session.run(given) for given in feeds]
    except EngineError:
        return []


def round_to_half(model: ModelProto, folder: str | None = None) -> ModelProto:
    """Copy the model so that all float values of its main graph, weights among them, are rounded to float16."""
    scope, copy = open_main_graph(model, folder), ModelProto()
    copy.CopyFrom(model)
    names, graph = Names(copy), copy.graph
    held = dict.fromkeys([*(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)])
    rounded = {name: names.fresh(f"{name}/rounded") for name in held if scope.elem_type(name) == _FLOAT}
    rename(graph.node, rounded)
    nodes = [each for name, made in rounded.items() for each in _round(name, made, names)]
    for node in graph.node:
        own = NodeProto()
        own.CopyFrom(node)
        nodes.append(own)
        for place, name in enumerate(node.output):
            if name and scope.elem_type(name) == _FLOAT:
                own.output[place] = names.fresh(f"{name}/exact")
                nodes += _round(own.output[place], name, names)
    del graph.node[:]
    graph.node.extend(nodes)
    return copy


def _round(given: str, made: str, names: Names) -> list[NodeProto]:
    half = names.fresh(f"{made}/half")
    return [
        NodeProto(op_type="Cast", input=[a], output=[b], attribute=[make_attribute("to", kind)])
        for a, b, kind in ((given, half, _HALF), (half, made, _FLOAT))
    ]

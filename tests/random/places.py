"""Puts nodes into branches, loops, scans and functions, with what they read from outside given or captured."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.defs
import onnx.helper
from onnx import GraphProto, TypeProto

from tests.random.engines import Engines
from tests.random.functions import function
from tests.random.graphs import Body, rename

Place = Callable[[random.Random, Engines, Body], Body]


def branch(rng: random.Random, engines: Engines, body: Body) -> Body:
    """The nodes in a branch of an If; the other branch holds the same ones, under the same or other names."""
    made = _around(body)
    cond = made.name("c")
    made.leaves[cond] = made.values[cond] = np.array(rng.random() < 0.5)
    outs = [made.name("i") for _ in body.outs]
    graphs = {}
    for key, tail in (("then_branch", ""), ("else_branch", rng.choice(["", "_e"]))):
        graph = _graph(rng, body, key)
        _rename_inner(graph, body, tail)
        graphs[key] = graph
    made.nodes.append(onnx.helper.make_node("If", [cond], outs, **graphs))
    for out, inner in zip(outs, body.outs, strict=True):
        _yield(made, out, body.values[inner])
        if inner in body.types:
            made.types[out] = body.types[inner]
    return made


def loop(rng: random.Random, engines: Engines, body: Body) -> Body:
    """The nodes in a Loop: one value from outside may be carried, what they yield is stacked."""
    tensors = _tensors(body)
    if tensors is None:
        return body
    made = _around(tensors)
    trips, cond = made.name("m"), made.name("c")
    times = rng.choice([1, 2, 3])
    made.leaves[trips] = made.values[trips] = np.array(times, np.int64)
    given = rng.random() < 0.5
    if given:
        made.leaves[cond] = made.values[cond] = np.array(True)
    graph = _graph(rng, tensors, "body")
    step, more, still = made.name("s"), made.name("t"), made.name("t")
    heads = [onnx.helper.make_tensor_value_info(step, 7, []), onnx.helper.make_tensor_value_info(more, 9, [])]
    graph.node.append(onnx.helper.make_node("Identity", [more], [still]))
    tails = [onnx.helper.make_tensor_value_info(still, 9, [])]
    carried = _carriable(rng, tensors)
    outs = []
    if carried is not None:
        inner, left = made.name("k"), made.name("k")
        rename(graph, carried, inner)
        heads.append(_info(rng, inner, tensors.type(carried)))
        graph.node.append(onnx.helper.make_node("Identity", [inner], [left]))
        tails.append(_info(rng, left, tensors.type(carried)))
        outs.append(made.name("o"))
        _yield(made, outs[0], tensors.values[carried])
    stacked = list(graph.output)
    del graph.output[:]
    graph.input.extend(heads)
    graph.output.extend([*tails, *stacked])
    inputs = [trips, cond if given else "", *([carried] if carried is not None else [])]
    for inner in tensors.outs:
        outs.append(made.name("o"))
        _yield(made, outs[-1], np.stack([tensors.values[inner]] * times))
    made.nodes.append(onnx.helper.make_node("Loop", inputs, outs, body=graph))
    return made


def scan(rng: random.Random, engines: Engines, body: Body) -> Body:
    """The nodes in a Scan over one of the values from outside."""
    tensors = _tensors(body)
    carried = _carriable(rng, tensors, always=True) if tensors is not None else None
    if tensors is None or carried is None or body.opsets.get("", 1) < 9:
        return body
    made = _around(tensors)
    graph = _graph(rng, tensors, "body")
    inner, times = made.name("k"), rng.choice([1, 2, 3])
    rename(graph, carried, inner)
    graph.input.append(_info(rng, inner, tensors.type(carried)))
    axis = rng.randint(0, tensors.values[carried].ndim)
    over = made.name("x")
    made.leaves.pop(carried)
    made.leaves[over] = made.values[over] = np.stack([tensors.values[carried]] * times, axis)
    outs = [made.name("o") for _ in tensors.outs]
    node = onnx.helper.make_node("Scan", [over], outs, body=graph, num_scan_inputs=1)
    if axis or rng.random() < 0.3:
        node.attribute.append(onnx.helper.make_attribute("scan_input_axes", [axis]))
    made.nodes.append(node)
    for out, name in zip(outs, tensors.outs, strict=True):
        _yield(made, out, np.stack([tensors.values[name]] * times))
    return made


PLACES: dict[str, Place] = {"if": branch, "loop": loop, "scan": scan, "function": function}
WAYS = (
    (), (), (), ("if",), ("loop",), ("scan",), ("function",), ("function",), ("function",), ("function", "function"),
    ("if", "function"), ("function", "if"), ("loop", "function"), ("function", "loop"), ("if", "loop"), ("if", "if"),
    ("if", "scan"), ("function", "function", "if"),
)  # fmt: skip


def placed(rng: random.Random, engines: Engines, body: Body, way: tuple[str, ...] | None = None) -> tuple[Body, str]:
    """The nodes at some place, and its name, from the inside out."""
    way = rng.choice(WAYS) if way is None else way
    body = _with_constants(rng, body)
    names = []
    for at in way:
        made = PLACES[at](rng, engines, body)
        if made is not body:
            names.append(at)
        body = made
    return body, " in ".join(names) or "graph"


def _with_constants(rng: random.Random, body: Body) -> Body:
    """Some of the values from outside as constants inside."""
    made = replace(body, leaves=dict(body.leaves), held=dict(body.held), nodes=list(body.nodes))
    share = rng.choice([0.0, 0.0, 0.3, 0.6])
    for name, value in list(made.leaves.items()):
        if rng.random() < share and isinstance(value, np.ndarray) and name not in body.types:
            made.held[name] = made.leaves.pop(name)
    return made


def _around(body: Body) -> Body:
    return Body(
        dict(body.opsets),
        leaves=dict(body.leaves),
        values=dict(body.values),
        types=dict(body.types),
        functions=list(body.functions),
        count=body.count,
    )


def _yield(made: Body, name: str, value: Any) -> None:
    made.values[name] = value
    made.outs.append(name)


def _tensors(body: Body) -> Body | None:
    """The body with those of its results alone that are tensors, as what is stacked must be."""
    outs = [n for n in body.outs if isinstance(body.values[n], np.ndarray)]
    return replace(body, outs=outs) if outs else None


def _carriable(rng: random.Random, body: Body, *, always: bool = False) -> str | None:
    found = [n for n, v in body.leaves.items() if isinstance(v, np.ndarray) and n not in body.types]
    return rng.choice(found) if found and (always or rng.random() < 0.6) else None


def _graph(rng: random.Random, body: Body, name: str) -> GraphProto:
    """The nodes as a subgraph that captures what they read; constants are initializers or nodes."""
    graph = GraphProto(name=name)
    for held, value in body.held.items():
        if rng.random() < 0.5 and value.dtype.kind not in "OSU":
            graph.initializer.append(_tensor(value, held))
        else:
            graph.node.append(onnx.helper.make_node("Constant", [], [held], value=_tensor(value)))
    graph.node.extend(body.nodes)
    graph.output.extend(_info(rng, out, body.type(out)) for out in body.outs)
    return graph


def _tensor(value: Any, name: str = "") -> Any:
    from tests.random.values import tensor

    return tensor(value, name)


def _info(rng: random.Random, name: str, kind: TypeProto) -> onnx.ValueInfoProto:
    """A value inside, with its shape, its rank alone, or neither."""
    made = onnx.ValueInfoProto(name=name, type=kind)
    how = rng.random()
    if made.type.HasField("tensor_type"):
        if how < 0.4:
            made.type.tensor_type.ClearField("shape")
        elif how < 0.6:
            for dim in made.type.tensor_type.shape.dim:
                dim.Clear()
    return made


def _rename_inner(graph: GraphProto, body: Body, tail: str) -> None:
    if not tail:
        return
    made = {t.name for t in graph.initializer} | {o for n in graph.node for o in n.output if o}
    for name in made:
        rename(graph, name, name + tail)

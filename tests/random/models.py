"""Models of bodies: each value from outside is fed, with known sizes, unknown ones or no rank, or is a constant."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx.checker
import onnx.helper
import onnx.numpy_helper
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto
from opshift.passes.model.traversal import bodies

from tests.random.calls import Corpus, lifetime
from tests.random.engines import Engines
from tests.random.graphs import Body, chain, model_of, single
from tests.random.mutations import is_parameter
from tests.random.places import placed
from tests.random.turns import turn
from tests.random.values import FAR, far, tamed, tensor

PECULIAR = (
    "{}", "{}", "{}", "a b{}", "é{}", "{}/held", "Softmax_{}", "{}_0", "y.{}", "{}:0", "0{}", "{}'\"", "$<{}>", "{}{}",
    "opshift_{}", "t{}_shape",
)  # fmt: skip


FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}


@dataclass(frozen=True)
class Source:
    """A model to be judged by, with what it is fed."""

    model: ModelProto
    feeds: dict[str, Any]
    place: str
    seed: int = 0


def drawn_source(seed: int, engines: Engines, corpus: Corpus, *, longest: int = 40) -> Source | None:
    """The model of a seed; None where what was drawn does not run or is not valid."""
    rng = random.Random(seed)
    key, trait = turn(corpus, seed)
    lived = [v for v in lifetime(*key) if v >= 7 and not key[0]]
    if rng.random() < 0.85 or not lived or longest < 2:
        body = single(rng, engines, corpus, key, trait)
    else:
        length = min(rng.choice([2, 2, 3, 3, 4, 5, 8, 12, 20, 40]), longest)
        body = chain(rng, engines, corpus, key, rng.choice(lived), length)
    if body is None:
        return None
    if len(body.outs) > 1 and rng.random() < 0.3:
        body.outs = sorted(rng.sample(body.outs, rng.randint(1, len(body.outs) - 1)))
    try:
        body, place = placed(rng, engines, body)
        source = closed(rng, body, place)
    except TypeError:  # a value that has no type in ONNX: an empty sequence, an optional without a value
        return None
    return replace(source, seed=seed) if valid(source.model) else None


def tame(source: Source, most: float = FAR) -> Source | None:
    """The source with ordinary numbers for those that are far from 1, infinite or NaN; None where there are none."""
    feeds = {name: tamed(value, most) for name, value in source.feeds.items() if far(value, most).any()}
    model, held = ModelProto(), False
    model.CopyFrom(source.model)
    for constant in constants(model):
        if constant.data_type in FLOATS and far(value := onnx.numpy_helper.to_array(constant), most).any():
            constant.CopyFrom(tensor(tamed(value, most), constant.name))
            held = True
    return replace(source, model=model, feeds={**source.feeds, **feeds}) if feeds or held else None


def constants(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors that a model holds."""
    for body in bodies(model):
        if isinstance(body, GraphProto):
            yield from body.initializer
        for node in body.node:
            yield from (a.t for a in node.attribute if a.type == AttributeProto.TENSOR)


def valid(model: ModelProto) -> bool:
    """Whether onnx.checker takes the model, types and shapes included."""
    return not complaint(model)


def complaint(model: ModelProto) -> str:
    """What onnx.checker says against a model."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return " ".join(str(error).split())[:300]
    return ""


def closed(rng: random.Random, body: Body, place: str) -> Source:
    """The body as a model, each value from outside in some form."""
    graph, feeds = GraphProto(name="g"), {}
    graph.node.extend(body.nodes)
    fixed = rng.choice([0.0, 0.5, 1.0])  # how many sizes are known
    constant = rng.choice([0.0, 0.2, 0.9])
    ahead = []
    for name, value in body.held.items():
        if rng.random() < 0.5 and value.dtype.kind not in "OSU":
            graph.initializer.append(tensor(value, name))
        else:
            ahead.append(onnx.helper.make_node("Constant", [], [name], value=tensor(value)))
    for name, value in body.leaves.items():
        plain = isinstance(value, np.ndarray) and name not in body.types
        share = max(constant, 0.5) if is_parameter(value) else constant
        if plain and rng.random() < share:
            graph.initializer.append(tensor(value, name))
            if body.opsets.get("", 1) < 9 or rng.random() < 0.05:
                graph.input.append(ValueInfoProto(name=name, type=body.type(name)))
        elif plain and value.dtype.kind in "fi" and body.opsets.get("", 1) >= 5 and rng.random() < 0.06:
            shape = np.array(value.shape, np.int64)
            feeds |= {f"{name}_flat": value.reshape(-1), f"{name}_shape": shape}
            graph.input.append(ValueInfoProto(name=f"{name}_flat", type=_open(rng, name, feeds[f"{name}_flat"], fixed)))
            graph.input.append(ValueInfoProto(name=f"{name}_shape", type=_open(rng, f"{name}_s", shape, 0.0)))
            ahead.append(onnx.helper.make_node("Reshape", [f"{name}_flat", f"{name}_shape"], [name]))
        else:
            feeds[name] = value
            kind = _open(rng, name, value, fixed) if plain else body.type(name)
            graph.input.append(ValueInfoProto(name=name, type=kind))
    nodes = [*ahead, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    for name in body.outs:
        kind = body.type(name)
        if kind.HasField("tensor_type"):
            kind = _open(rng, f"{name}o", body.values[name], 1.0 if rng.random() < 0.2 * fixed else 0.0)
        graph.output.append(ValueInfoProto(name=name, type=kind))
    model = model_of(graph, body.opsets, body.functions)
    if rng.random() < 0.25:
        feeds = _peculiar(rng, model, feeds)
    return Source(model, feeds, place)


def _open(rng: random.Random, name: str, value: Any, fixed: float) -> TypeProto:
    """The type of an array of which some sizes are known."""
    from tests.random.values import type_of

    symbols = rng.random() < 0.5
    shape = [
        d if rng.random() < fixed else f"n{d}" if symbols and fixed < 1 and not name.endswith("o") else f"{name}_{at}"
        for at, d in enumerate(value.shape)
    ]
    return type_of(value, shape)


def _peculiar(rng: random.Random, model: ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    """Other names for all values: characters that mean something elsewhere, and names as a converter makes them."""
    names: dict[str, str] = {"": ""}
    forms = rng.sample(PECULIAR, 3)

    def other(name: str) -> str:
        return names.setdefault(name, rng.choice(forms).replace("{}", name))

    def inside(graph: GraphProto) -> None:
        for held in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
            held.name = other(held.name)
        nodes(graph.node)

    def nodes(found: Any) -> None:
        for node in found:
            node.input[:] = [other(n) for n in node.input]
            node.output[:] = [other(n) for n in node.output]
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    inside(attribute.g)

    inside(model.graph)
    for made in model.functions:
        made.input[:] = [other(n) for n in made.input]
        made.output[:] = [other(n) for n in made.output]
        nodes(made.node)
    return {other(name): value for name, value in feeds.items()}

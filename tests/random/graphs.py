"""Graphs of calls: what one yields the next may read. Each value is known, as an engine computed it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx.helper
import onnx.shape_inference
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model import schemas

from tests.random.calls import ANY, LARGEST, Call, Corpus, Key, Trait
from tests.random.engines import Engines
from tests.random.mutations import is_parameter, mutated, trimmed
from tests.random.values import tensor, type_of
from tests.random.worker import flat
from tests.undefined import undefined


@dataclass
class Body:
    """Nodes with the values that they read from outside (`leaves`), and those that are read from outside (`outs`).

    `held` are constants that lie inside, `values` all that is known, `types` those of values that are no arrays.
    """

    opsets: dict[str, int]
    nodes: list[NodeProto] = field(default_factory=list)
    leaves: dict[str, Any] = field(default_factory=dict)
    held: dict[str, Any] = field(default_factory=dict)
    outs: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    types: dict[str, TypeProto] = field(default_factory=dict)
    functions: list[FunctionProto] = field(default_factory=list)
    count: int = 0

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def type(self, name: str) -> TypeProto:
        """The type of a value, with its sizes."""
        return self.types[name] if name in self.types else type_of(self.values[name])

    def plain(self) -> tuple[ModelProto, dict[str, Any]]:
        """The nodes as a model with everything fed, to see whether it runs."""
        graph = onnx.GraphProto(name="g", node=self.nodes)
        for name in self.leaves:
            graph.input.add(name=name, type=self.type(name))
        for name, value in self.held.items():
            graph.initializer.append(tensor(value, name))
        return model_of(graph, self.opsets, self.functions), dict(self.leaves)


def model_of(graph: onnx.GraphProto, opsets: dict[str, int], functions: Iterable[FunctionProto] = ()) -> ModelProto:
    """A model of the IR version that goes with its opset, or the lowest that can hold it."""
    functions = list(functions)
    ir = max(schemas.ir_version("", opsets.get("", 1)), 8 if functions else 4)
    if any(domain not in ("", "ai.onnx.ml") for domain in opsets):
        ir = max(ir, 8)
    made = ModelProto(ir_version=ir, graph=graph, functions=functions)
    for domain, version in opsets.items():
        made.opset_import.add(domain=domain, version=version)
    return made


def run_call(engines: Engines, call: Call) -> list[Any] | None:
    """The outputs of a call, from the first engine that runs it; None where none does, or of which the text says nothing."""
    opsets = {"": call.opset} if not call.domain else {"": 17, call.domain: call.opset}
    body = Body(opsets)
    body.outs = [name for name in _add(body, call, {}) if name]
    if undefined(*body.plain(), compute=engines.values):
        return None
    return run_body(engines, body)


def run_body(engines: Engines, body: Body) -> list[Any] | None:
    """What nodes yield, from the first engine that runs them; None where none does."""
    model, feeds = body.plain()
    for name in body.outs:
        model.graph.output.add(name=name)
    try:
        model = flat(model)
        _typed(model)
    except Exception:
        return None
    for engine in ("onnxruntime", "onnx.reference", "raised"):
        found, _ = engines.run(engine, model, feeds)
        if found is not None and all(_usable(v) for v in found):
            return found
    return None


def _typed(model: ModelProto) -> None:
    """Types for the outputs, by onnx's inference, which raises for a call that cannot be, or by the schema."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    for out, known in zip(model.graph.output, inferred.graph.output, strict=True):
        out.type.CopyFrom(known.type if known.type.WhichOneof("value") else _by_schema(model, out.name))


def _by_schema(model: ModelProto, name: str) -> TypeProto:
    """The type of an output whose operator has no inference: that of the input of the same type variable, or the one
    that the schema has for all."""
    node = next(node for node in model.graph.node if name in node.output)
    opset = next((i.version for i in model.opset_import if i.domain == node.domain), 1)
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    variable = schema.outputs[min(list(node.output).index(name), len(schema.outputs) - 1)].type_str
    types = {value.name: value.type for value in model.graph.input}
    for at, read in enumerate(node.input):
        if schema.inputs[min(at, len(schema.inputs) - 1)].type_str == variable and read in types:
            return onnx.helper.make_tensor_type_proto(types[read].tensor_type.elem_type, None)
    kinds = {str(c.type_param_str): sorted(c.allowed_type_strs) for c in schema.type_constraints}
    kind = _chosen(node, kinds.get(variable, [variable]))
    if not kind.startswith("tensor("):
        raise ValueError("no type")
    return onnx.helper.make_tensor_type_proto(TensorProto.DataType.Value(kind[7:-1].upper()), None)


def _chosen(node: NodeProto, kinds: list[str]) -> str:
    """Which of some types an output has: the one that an attribute names, or that of the labels that are listed."""
    if len(kinds) == 1:
        return kinds[0]
    to = next((a.s.decode().lower() for a in node.attribute if a.name == "to"), "")
    labels = "string" if any(a.name.endswith("_strings") and a.strings for a in node.attribute) else "int64"
    return next((kind for kind in (f"tensor({to})", f"tensor({labels})") if kind in kinds), "")


def _usable(value: Any) -> bool:
    return (isinstance(value, np.ndarray) and value.size <= LARGEST) or (isinstance(value, list) and bool(value))


def _add(body: Body, call: Call, given: dict[int, str]) -> list[str]:
    """A node for a call; inputs that are not given become leaves."""
    inputs = []
    for at, value in enumerate(call.inputs):
        if at in given:
            inputs.append(given[at])
        elif value is None:
            inputs.append("")
        else:
            name = body.name("x")
            body.leaves[name] = body.values[name] = value
            if at < len(call.types) and (kind := call.types[at]) is not None:
                body.types[name] = kind
            inputs.append(name)
    outputs = [body.name("y") if named else "" for named in call.outputs]
    body.nodes.append(call.node(inputs, outputs))
    return outputs


TRIES = 6


def single(rng: random.Random, engines: Engines, corpus: Corpus, key: Key, trait: Trait = ANY) -> Body | None:
    """One call of a version of an operator, with a trait; the last to be tried is as it was found."""
    for at in range(TRIES):
        call = corpus.draw(rng, key, trait)
        if call is None:
            return None
        if at < TRIES - 1:
            call = mutated(rng, call, corpus, trait)
        found = run_call(engines, call)
        if found is not None:
            opsets = {"": call.opset} if not call.domain else {"": rng.choice([9, 13, 17]), call.domain: call.opset}
            body = Body(opsets)
            _take(body, call, {}, found)
            return body
    return None


def _take(body: Body, call: Call, given: dict[int, str], found: list[Any]) -> None:
    named = [name for name in _add(body, call, given) if name]
    for name, value in zip(named, found, strict=True):
        body.values[name] = value
        body.outs.append(name)


def chain(rng: random.Random, engines: Engines, corpus: Corpus, first: Key, opset: int, length: int) -> Body | None:
    """So many calls at one opset, each of which reads what others yielded wherever that fits."""
    alive = [k for k in corpus.known if not k[0] and schemas.since("", k[1], opset) == k[2]]
    body = Body({"": opset})
    for at in range(3 * length if alive else 0):
        if len(body.nodes) >= length:
            break
        call = corpus.draw(rng, first if not at else rng.choice(alive))
        if call is None:
            continue
        call = trimmed(mutated(rng, call.at(opset), corpus))
        given = _fitting(rng, body, call)
        inputs = [body.values[given[at]] if at in given else v for at, v in enumerate(call.inputs)]
        call = Call(call.domain, call.op, opset, call.attributes, tuple(inputs), call.outputs, call.types)
        found = run_call(engines, call)
        if found is not None:
            _take(body, call, given, found)
    if not body.nodes:
        return None
    read = {name for node in body.nodes for name in node.input}
    body.outs = [n for n in body.outs if n not in read or rng.random() < 0.2]
    return body


def _fitting(rng: random.Random, body: Body, call: Call) -> dict[int, str]:
    """Values for inputs of a call: of the same type, and of the same shape unless a change of it is tried."""
    given: dict[int, str] = {}
    made = [n for n in body.values if isinstance(body.values[n], np.ndarray)]
    kinds = {v.dtype for v in call.inputs if isinstance(v, np.ndarray) and not is_parameter(v)}
    loose = rng.random() < 0.5
    for at, value in enumerate(call.inputs):
        if not isinstance(value, np.ndarray):
            continue
        same = [n for n in made if body.values[n].dtype == value.dtype]
        exact = [n for n in same if body.values[n].shape == value.shape]
        ranked = [n for n in same if body.values[n].ndim == value.ndim]
        if exact and rng.random() < 0.8 and not is_parameter(value):
            given[at] = rng.choice(exact[-8:])
        elif loose and ranked and len(kinds) == 1 and rng.random() < 0.6 and not is_parameter(value):
            given[at] = rng.choice(ranked[-8:])
        elif loose and same and at == 0 and len(call.inputs) == 1:
            given[at] = rng.choice(same[-8:])
    return given


def rename(graph: GraphProto, old: str, new: str) -> None:
    """Another name for a value, also where subgraphs read it."""
    for held in graph.initializer:
        if held.name == old:
            held.name = new
    for value in graph.output:
        if value.name == old:
            value.name = new
    for node in graph.node:
        replace_in(node, old, new)


def replace_in(node: NodeProto, old: str, new: str) -> None:
    node.input[:] = [new if n == old else n for n in node.input]
    node.output[:] = [new if n == old else n for n in node.output]
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            rename(attribute.g, old, new)

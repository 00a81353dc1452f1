"""Nodes as the body of a model-local function: inputs left out by the caller, attributes bound, defaulted, unbound and
forwarded, and further callers with other types, sizes and inputs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.defs
import onnx.helper
from onnx import AttributeProto, FunctionProto, NodeProto
from onnx.defs import OpSchema

from tests.random.engines import Engines
from tests.random.graphs import Body, replace_in, run_body
from tests.random.mutations import is_parameter
from tests.random.values import drawn, resized, tensor
from tests.runtime import every_node

DOMAIN = "own.domain"


def function(rng: random.Random, engines: Engines, body: Body) -> Body:
    """A call of a function that holds the nodes; sometimes two or three calls."""
    made = Body(
        dict(body.opsets), leaves=dict(body.leaves), values=dict(body.values), types=dict(body.types), count=body.count
    )
    formals = list(body.leaves)
    actual: dict[str, str] = {name: name for name in formals}
    nodes = [_copy(node) for node in body.nodes]
    casts = _cast(made, nodes) if rng.random() < 0.4 and body.opsets.get("", 1) >= 9 else []
    for node in nodes:
        for name in _left_out(rng, made, node):
            formals.append(name)
            actual[name] = ""
    rng.shuffle(formals)
    bound: list[AttributeProto] = []
    defaulted: list[AttributeProto] = []
    unbound: list[str] = []
    for node in nodes if rng.random() < 0.6 else ():  # what a step may read of them is told apart from what it may not
        _refer(rng, made, node, bound, defaulted, unbound)
    constants = [
        onnx.helper.make_node("Constant", [], [name], value=tensor(value)) for name, value in body.held.items()
    ]
    called = rng.choice([body.nodes[0].op_type, "F", "F"]) + (str(made.count) if body.functions else "")
    made.functions = [
        *body.functions,
        FunctionProto(
            name=called,
            domain=DOMAIN,
            input=formals,
            output=body.outs,
            attribute=[*[a.name for a in bound], *unbound],
            attribute_proto=defaulted,
            node=[*constants, *casts, *nodes],
            opset_import=[onnx.helper.make_opsetid(d, v) for d, v in body.opsets.items()],
        ),
    ]
    made.opsets[DOMAIN] = 1
    outs = [made.name("f") for _ in body.outs]
    call = NodeProto(op_type=called, domain=DOMAIN, input=[actual[n] for n in formals], output=outs)
    if rng.random() < 0.7:
        while call.input and not call.input[-1]:
            call.input.pop()
    call.attribute.extend(bound)
    made.nodes.append(call)
    for out, inner in zip(outs, body.outs, strict=True):
        made.values[out] = body.values[inner]
        made.outs.append(out)
        if inner in body.types:
            made.types[out] = body.types[inner]
    for _ in range(rng.choice([0, 0, 1, 2])):
        _call_again(rng, engines, made, call, formals)
    return made


def _copy(node: NodeProto) -> NodeProto:
    made = NodeProto()
    made.CopyFrom(node)
    return made


def _cast(made: Body, nodes: list[NodeProto]) -> list[NodeProto]:
    """Nodes that give values from outside the type that they have: then it is known inside, whoever calls."""
    casts = []
    for name, value in made.leaves.items():
        if isinstance(value, np.ndarray) and name not in made.types and value.dtype.kind in "fiub":
            kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            casts.append(onnx.helper.make_node("Cast", [name], [made.name("z")], to=kind))
            for node in nodes:
                replace_in(node, name, casts[-1].output[0])
    return casts


def _left_out(rng: random.Random, made: Body, node: NodeProto) -> list[str]:
    """Names in the place of optional inputs that a node goes without."""
    if node.domain == DOMAIN:
        return []
    schema = onnx.defs.get_schema(node.op_type, made.opsets[node.domain], node.domain)
    names = []
    for at, formal in enumerate(schema.inputs):
        if formal.option != OpSchema.FormalParameterOption.Optional or rng.random() < 0.4:
            continue
        if at < len(node.input) and not node.input[at]:
            names.append(made.name("n"))
            node.input[at] = names[-1]
        elif at == len(node.input):
            names.append(made.name("n"))
            node.input.append(names[-1])
    return names


def _refer(
    rng: random.Random,
    made: Body,
    node: NodeProto,
    bound: list[AttributeProto],
    defaulted: list[AttributeProto],
    unbound: list[str],
) -> None:
    """Attributes that the caller gives, that have a default, or that nobody gives: then the operator's own counts."""
    for attribute in node.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) or rng.random() < 0.5:
            continue
        name = made.name("a")
        given = AttributeProto()
        given.CopyFrom(attribute)
        given.name = name
        (bound if attribute.ref_attr_name or rng.random() < 0.6 else defaulted).append(given)
        own, kind = attribute.name, attribute.type
        attribute.Clear()
        attribute.name, attribute.type, attribute.ref_attr_name = own, kind, name
    if node.domain == DOMAIN:
        return
    schema = onnx.defs.get_schema(node.op_type, made.opsets[node.domain], node.domain)
    for name, formal in sorted(schema.attributes.items()):
        missing = all(a.name != name for a in node.attribute) and not formal.required
        if missing and "GRAPH" not in formal.type.name and rng.random() < 0.3:
            unbound.append(made.name("a"))
            kind = AttributeProto.AttributeType.Value(formal.type.name)
            node.attribute.append(AttributeProto(name=name, type=kind, ref_attr_name=unbound[-1]))


def _call_again(rng: random.Random, engines: Engines, made: Body, call: NodeProto, formals: list[str]) -> None:
    """Another call of the function, where it runs with other values."""
    again, leaves = _copy(call), {}
    kind = rng.choice(["type", "size", "value", "omit", "rank", "same"])
    dtype = rng.choice([np.float64, np.int32, np.int64, np.float16, np.float32])
    first = next((v.dtype for n in call.input if n and isinstance(v := made.values[n], np.ndarray)), None)
    old, new = rng.choice([1, 2, 3, 4, 5]), rng.choice([0, 1, 2, 3])
    several = {name for body in made.functions for node in body.node for name in _operands(made, node)}
    for at, name in enumerate(call.input):
        if not name:
            continue
        value: Any = made.values[name]
        if not isinstance(value, np.ndarray) or name in made.types or name not in made.leaves:
            continue
        if kind == "type" and value.dtype == first and value.dtype.kind in "fi":
            with np.errstate(all="ignore"):
                value = np.asarray(np.nan_to_num(value)).astype(dtype)
        elif kind == "size" and not is_parameter(value):
            value = resized(value, [new if d == old else d for d in value.shape])
        elif kind == "rank" and not is_parameter(value):
            value = value[None]
        elif kind == "value" and value.dtype.kind == "f":
            value = drawn(rng, value.dtype, value.shape, special=False)
        elif kind == "omit" and at and rng.random() < 0.6 and formals[at] not in several:
            again.input[at] = ""
            continue
        fresh = made.name("x")
        again.input[at], leaves[fresh] = fresh, value
    while again.input and not again.input[-1]:
        again.input.pop()
    again.output[:] = [made.name("f") for _ in call.output]
    trial = replace(
        made, nodes=[again], leaves={**made.leaves, **leaves}, values={**made.values, **leaves}, outs=list(again.output)
    )
    found = run_body(engines, trial)
    if found is None:
        return
    if kind != "same":  # sizes may hang on values, and on what is left out
        _without_claims(made)
    made.nodes.append(again)
    made.leaves.update(leaves)
    made.values.update(leaves)
    for name, value in zip(again.output, found, strict=True):
        made.values[name] = value
        made.outs.append(name)


def _operands(made: Body, node: NodeProto) -> list[str]:
    """What is one of any number of operands: no text tells what a call means that goes without one."""
    if node.domain == DOMAIN:
        return []
    schema = onnx.defs.get_schema(node.op_type, made.opsets[node.domain], node.domain)
    options = [formal.option for formal in schema.inputs]
    variadic = OpSchema.FormalParameterOption.Variadic
    return list(node.input[options.index(variadic) :]) if variadic in options else []


def _without_claims(made: Body) -> None:
    """Subgraphs of functions declare no sizes: not all callers have the same."""
    for body in made.functions:
        for node in every_node(body.node):
            for graph in (a.g for a in node.attribute if a.type == AttributeProto.GRAPH):
                for value in (*graph.input, *graph.output, *graph.value_info):
                    if value.type.HasField("tensor_type"):
                        value.type.tensor_type.ClearField("shape")

"""Definitions as patterns: a call is expanded by the engine, and what comes out is read as a term.

An operator's definition hangs on its call: types, ranks, axes, which optional inputs are there. Patterns are built for
the calls that a value suggests, once for each. Float attributes are marks, numbers that nothing else is, which are
found again in the term and stand for whatever number a value has in their place.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.fusion.keys import OP, PRODUCT, SUM, VARIABLE
from opshift.passes.fusion.reader import Reader
from opshift.passes.fusion.reading.all import RULES
from opshift.passes.fusion.terms import Terms
from opshift.passes.model import schemas
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import ModelProto, NodeProto
from opshift.passes.model.traversal import Op, subgraphs
from opshift.passes.model.types import Dim, tensor_text, tensor_type

ROTARY: Op = ("", "RotaryEmbedding")
Axes = tuple[int, ...]


def single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


_MARKS = tuple(map(single, (0.37193127, 0.61417943, 0.83511719)))


@dataclass(frozen=True)
class PatternTensor:
    """An input that a variable stands for."""

    elem_type: int
    dims: tuple[Dim, ...] | None


@dataclass(frozen=True)
class Splat(PatternTensor):
    """An input that has one value everywhere, which the nodes leave out."""

    value: float = 0.0


@dataclass(frozen=True)
class PatternCall:
    """A call of an operator: what its definition hangs on. An input is a tensor, axes, or absent."""

    op: Op
    opset: int
    inputs: tuple[PatternTensor | Axes | None, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    marks: tuple[str, ...] = ()
    """Float attributes that may have any value."""

    def all_attributes(self) -> dict[str, Any]:
        return {**dict(self.attributes), **dict(zip(self.marks, _MARKS, strict=False))}


@dataclass(frozen=True)
class Pattern:
    """The term of a call's definition, where the inputs are variables."""

    call: PatternCall
    terms: Terms
    root: int
    marks: Mapping[str, float]
    grade: str
    nodes: tuple[str, ...] = field(default=())
    """The operators of the definition."""
    shares: bool = False
    """Whether inputs may be the half of a value that others use, too."""


@cache
def pattern(call: PatternCall) -> Pattern | None:
    """The pattern of a call; None where there is no definition for it, or its operator does not take its types."""
    from opshift.passes.conversion import convert

    domain, op = call.op
    schema = schemas.schema(domain, op, call.opset) if schemas.is_onnx_domain(domain) else None
    if schema is not None and not all(_is_taken(schema, index, given) for index, given in enumerate(call.inputs)):
        return None
    model = _write(call, schema)
    result = convert.convert_model(model, {"": call.opset}, ops={call.op})
    if result.model is None:
        return None
    graph = result.model.graph
    if any(True for made in graph.node for _ in subgraphs(made)):
        return None
    terms = Terms()
    reader = Reader(terms, Scope(graph, Context(result.model, result.model), call.opset, path=()), RULES)
    for index, given in enumerate(call.inputs):
        if isinstance(given, Splat):
            reader.bind(f"x{index}", terms.number(given.value))
        elif isinstance(given, PatternTensor):
            reader.bind(f"x{index}", terms.of(VARIABLE, index))
    for made in graph.node:
        reader.read(made)
    root = reader.term("y")
    marks = dict(zip(call.marks, _MARKS, strict=False))
    if terms.keys[root].kind not in (OP, PRODUCT, SUM):
        return None
    return Pattern(
        call, terms, root, marks, result.grade, tuple(made.op_type for made in graph.node), call.op == ROTARY
    )


def _write(call: PatternCall, schema: schemas.Schema | None) -> ModelProto:
    """A model of the call alone."""
    from opshift.passes.model.tensors import int64s

    domain, op = call.op
    model = ModelProto(ir_version=schemas.ir_version("", call.opset))
    model.opset_import.add(domain="", version=call.opset)
    if domain:
        model.opset_import.add(domain=domain, version=1)
    node = NodeProto(op_type=op, domain=domain, output=["y"])
    for index, given in enumerate(call.inputs):
        name = "" if given is None else f"x{index}"
        node.input.append(name)
        if isinstance(given, PatternTensor):
            model.graph.input.add(name=name).type.CopyFrom(tensor_type(given.elem_type, given.dims))
        elif given is not None:
            model.graph.initializer.append(int64s(given))
            model.graph.initializer[-1].name = name
    for name, value in call.all_attributes().items():
        elem_type = schema.attributes[name].type if schema else 0
        node.attribute.append(make_attribute(name, value, elem_type))
    model.graph.node.append(node)
    first = next(given for given in call.inputs if isinstance(given, PatternTensor))
    model.graph.output.add(name="y").type.CopyFrom(tensor_type(first.elem_type))
    return model


def _is_taken(schema: schemas.Schema, index: int, given: PatternTensor | Axes | None) -> bool:
    """Whether an operator takes what is given to it at `index`."""
    formal = schema.input(index)
    return (
        not isinstance(given, PatternTensor)
        or formal is None
        or schemas.legal_types(tensor_text(given.elem_type), formal)
    )

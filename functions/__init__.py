"""Operators written as onnxscript functions, and the lookup of the form that fits an element type.

The definitions are compiled ahead (`python -m opshift.functions.compile`) into one `.binpb` file a family, so
that a conversion does not import onnxscript; a test keeps both equal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from opshift.passes import schemas
from opshift.passes.protos import FunctionProto, ModelProto, NodeProto

OPENVINO = "opshift.openvino"
"""The domain of OpenVINO's operators: ReduceL1 (its version 4) and NormalizeL2 (its version 1)."""


@dataclass(frozen=True)
class Form:
    """One definition of an operator for one element type.

    `carrier` is the element type to compute in, 0 for the type itself; `carried_inputs` are the inputs to
    cast. `attributes` maps the declared attributes to their types, `choices` the enumerated ones to their texts.
    """

    body: FunctionProto
    domain: str
    op: str
    elem_type: int
    carrier: int
    carried_inputs: tuple[int, ...]
    grade: str
    attributes: Mapping[str, int]
    choices: Mapping[str, tuple[str, ...]]

    @property
    def opset(self) -> int:
        """The default domain's opset that the body is written at."""
        return next(i.version for i in self.body.opset_import if not i.domain)

    def version(self, current: int) -> int:
        """The version of the operator's own domain at which a call fits the definition."""
        return current if self.domain else self.opset

    @property
    def required(self) -> list[str]:
        """The attributes that a call must have where no schema gives a default."""
        return list(self.body.attribute)


@dataclass(frozen=True)
class _Compiled:
    body: FunctionProto
    types: dict[int, int]
    carried_inputs: tuple[int, ...]
    grade: str
    attributes: dict[str, int]
    choices: dict[str, tuple[str, ...]]


@cache
def _definitions(family: str) -> dict[tuple[str, str], list[_Compiled]]:
    found: dict[tuple[str, str], list[_Compiled]] = {}
    path = os.path.join(os.path.dirname(__file__), f"{family}.binpb")
    if not os.path.exists(path):
        return found
    with open(path, "rb") as file:
        compiled_ahead = ModelProto.FromString(file.read())
    for body in compiled_ahead.functions:
        notes = {entry.key: entry.value for entry in body.metadata_props}
        types = {int(kind): int(carrier) for kind, _, carrier in (p.partition(":") for p in notes["types"].split())}
        carried = tuple(map(int, notes["carried"].split()))
        attributes = {name: int(kind) for name, kind in _pairs(notes["attributes"])}
        choices = {name: tuple(texts.split(",")) for name, texts in _pairs(notes["choices"])}
        compiled = _Compiled(body, types, carried, notes["grade"], attributes, choices)
        found.setdefault((notes["domain"], notes["op"]), []).append(compiled)
    return found


def _pairs(note: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (entry.partition(":") for entry in note.split())]


def _family(domain: str, op: str) -> str:
    if domain == OPENVINO:
        return "openvino"
    newest = schemas.schema(domain, op, schemas.latest(domain)) if schemas.known_domain(domain) else None
    return newest.family if newest else ""


def defined(domain: str, op: str) -> bool:
    """Whether there is a definition of the operator for some type."""
    return (domain, op) in _definitions(_family(domain, op))


def operators(domain: str) -> list[str]:
    """The operators of a domain of functions alone that have definitions."""
    return sorted({op for of, op in _definitions(_family(domain, "")) if of == domain})


def bodies(domain: str, op: str) -> list[tuple[FunctionProto, str]]:
    """The definitions of an operator, one for each group of element types, with their grades."""
    return [(found.body, found.grade) for found in _definitions(_family(domain, op)).get((domain, op), ())]


def source(domain: str, op: str) -> str:
    """The name of the file that holds the operator's definitions."""
    return _family(domain, op)


def any_body(domain: str, op: str) -> FunctionProto:
    """One of the operator's definitions, whose results have the shapes that all of them have."""
    return _definitions(_family(domain, op))[domain, op][0].body


def find(domain: str, op: str, elem_type: int) -> Form | None:
    """The definition of an operator for an element type (`TensorProto.DataType`); None if there is none."""
    for compiled in _definitions(_family(domain, op)).get((domain, op), ()):
        if elem_type in compiled.types:
            carrier = compiled.types[elem_type]
            return Form(
                compiled.body,
                domain,
                op,
                elem_type,
                carrier if carrier != elem_type else 0,
                compiled.carried_inputs,
                compiled.grade,
                compiled.attributes,
                compiled.choices,
            )
    return None


def function_proto(domain: str, op: str, elem_type: int, opset: int = 0) -> FunctionProto:
    """The definition of an operator for one element type, as a function that a standard ONNX file can carry.

    Put it into the `functions` of a model that imports `domain`, and any runtime that knows functions runs the
    model's calls of the operator (onnxruntime and onnx.reference do, OpenVINO does not). It is written at `opset`
    of the default domain, which should be what the model imports; 0 means the opset of the definition. A model
    that calls it with several element types needs one function for each, told apart by `overload` (IR 10, and a
    runtime that reads it); one that leaves out attributes with a default needs IR 9.

    Args:
        domain: the operator's domain, such as `OPENVINO`; empty for the default one.
        op: its name.
        elem_type: the element type of what it computes, an `onnx.TensorProto.DataType`.
        opset: the opset of the default domain to write it at.

    Returns:
        A function of the operator's name, domain, inputs, outputs and attributes.

    Raises:
        ValueError: there is no definition for the element type, or it cannot be written at `opset`.
    """
    form = find(domain, op, elem_type)
    if form is None:
        raise ValueError(f"{domain}::{op} has no definition for element type {elem_type}")
    function = FunctionProto()
    function.CopyFrom(form.body)
    function.domain, function.name = domain, op
    del function.metadata_props[:]
    if form.carrier:
        _carry(function, form)
    return function if opset in (0, form.opset) else _at_opset(function, opset)


def _carry(function: FunctionProto, form: Form) -> None:
    """Cast in front of and behind the nodes, which compute in the carrier type."""
    from opshift.passes.stamp import rename
    from opshift.passes.view import make_attribute

    def cast(name: str, to: int, result: str) -> NodeProto:
        attribute = make_attribute("to", to)
        return NodeProto(op_type="Cast", input=[name], output=[result], attribute=[attribute])

    nodes = list(function.node)
    before = [(name := function.input[index], f"{name}_carried") for index in form.carried_inputs]
    after = [(name, f"{name}_carried") for name in function.output]
    for name, inner in (*before, *after):
        rename(nodes, name, inner)
    casts = [cast(name, form.carrier, inner) for name, inner in before]
    back = [cast(inner, form.elem_type, name) for name, inner in after]
    del function.node[:]
    function.node.extend([*casts, *nodes, *back])


def _at_opset(function: FunctionProto, opset: int) -> FunctionProto:
    from opshift.passes import convert

    holder = ModelProto(ir_version=schemas.ir_version("", opset), functions=[function])
    holder.graph.name = function.name
    holder.opset_import.extend(function.opset_import)
    converted = convert.attempt(holder, {"": opset}).model
    if converted is None or not converted.functions:
        raise ValueError(f"{function.domain}::{function.name} cannot be written as a function at opset {opset}")
    return converted.functions[0]

"""Operators written as onnxscript functions, and the lookup of the form that fits an element type.

The definitions are compiled ahead (`python -m opshift.functions.compile`) into one `.binpb` file a family, so
that a conversion does not import onnxscript; a test keeps both equal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from opshift.passes.model import schemas
from opshift.passes.model.messages import FunctionProto, ModelProto
from opshift.passes.records import dataclass

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
    known = schemas.is_onnx_domain(domain) or domain in schemas.VENDORS
    newest = schemas.schema(domain, op, schemas.latest(domain)) if known else None
    return newest.family if newest else ""


def has_definition(domain: str, op: str) -> bool:
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

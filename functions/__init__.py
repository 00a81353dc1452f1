"""Operators written as onnxscript functions, and the lookup of the form that fits an element type.

The definitions are compiled ahead (`python -m opshift.functions.compile`) into one `.binpb` file a family, so
that a conversion does not import onnxscript; a test keeps both equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from opshift.passes import schemas
from opshift.passes.protos import FunctionProto, ModelProto

OPENVINO = "opshift.openvino"
"""The domain of OpenVINO's operators: ReduceL1 (its version 4) and NormalizeL2 (its version 1)."""


@dataclass(frozen=True)
class Form:
    """One definition of an operator for one element type.

    `carrier` is the element type to compute in, 0 for the type itself; `carried_inputs` are the inputs to cast.
    """

    body: FunctionProto
    domain: str
    op: str
    elem_type: int
    carrier: int
    carried_inputs: tuple[int, ...]
    grade: str

    @property
    def opset(self) -> int:
        """The default domain's opset that the body is written at."""
        return next(i.version for i in self.body.opset_import if not i.domain)

    def version(self, current: int) -> int:
        """The version of the operator's own domain at which a call fits the definition."""
        return current if self.domain else self.opset


@dataclass(frozen=True)
class _Compiled:
    body: FunctionProto
    types: dict[int, int]
    carried_inputs: tuple[int, ...]
    grade: str


@cache
def _definitions(family: str) -> dict[tuple[str, str], list[_Compiled]]:
    found: dict[tuple[str, str], list[_Compiled]] = {}
    resource = files("opshift.functions").joinpath(f"{family}.binpb")
    if not resource.is_file():
        return found
    for body in ModelProto.FromString(resource.read_bytes()).functions:
        notes = {entry.key: entry.value for entry in body.metadata_props}
        types = dict(tuple(map(int, pair.split(":"))) for pair in notes["types"].split())
        compiled = _Compiled(body, types, tuple(map(int, notes["carried"].split())), notes["grade"])
        found.setdefault((notes["domain"], notes["op"]), []).append(compiled)
    return found


def _family(domain: str, op: str) -> str:
    if domain == OPENVINO:
        return "openvino"
    newest = schemas.schema(domain, op, schemas.latest(domain)) if schemas.known_domain(domain) else None
    return newest.family if newest else ""


def defined(domain: str, op: str) -> bool:
    """Whether there is a definition of the operator for some type."""
    return (domain, op) in _definitions(_family(domain, op))


def find(domain: str, op: str, elem_type: int) -> Form | None:
    """The definition of an operator for an element type (`TensorProto.DataType`); None if there is none."""
    for compiled in _definitions(_family(domain, op)).get((domain, op), ()):
        if elem_type in compiled.types:
            carrier = compiled.types[elem_type]
            cast = carrier if carrier != elem_type else 0
            return Form(compiled.body, domain, op, elem_type, cast, compiled.carried_inputs, compiled.grade)
    return None

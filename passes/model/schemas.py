"""What is legal at which opset: the one place that knows operator schemas.

Everything here is read from `schema_table.json` and `schema_rows.tsv`, which `opshift.passes.model.tabulate` writes
from `onnx.defs`, and `vendor_table.json`, which `opshift.catalog.vendors` writes from onnxruntime's registry.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from bisect import bisect_right
from functools import cache
from typing import Any, Literal

from opshift.passes.model import schemas
from opshift.passes.model.messages import AttributeProto, normalize_domain
from opshift.passes.records import dataclass

INFINITE = 2**31 - 1  # max_input of a variadic operator

MICROSOFT, NCHWC, NHWC = "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"
ONNXRUNTIME = "ai.onnx (onnxruntime)"
"""Stands for the default domain where onnxruntime has operators in it that ONNX does not define."""
IMPORTED = (MICROSOFT, NCHWC, NHWC)
VENDORS = (*IMPORTED, ONNXRUNTIME)
"""The domains whose operators are known, but which are not ONNX's: others than these may have been added since."""


@dataclass(frozen=True)
class Parameter:
    """A formal input or output. `type` is a type variable such as `T`, or a type such as `tensor(int64)`."""

    name: str
    type: str
    option: Literal["Single", "Optional", "Variadic"]
    types: frozenset[str]
    homogeneous: bool


@dataclass(frozen=True)
class Attribute:
    """An attribute that a schema declares; `default` is None where the schema has none."""

    type: int
    required: bool
    default: AttributeProto | None


@dataclass(frozen=True)
class Schema:
    """One version of one operator."""

    domain: str
    name: str
    since: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: dict[str, Attribute]
    min_input: int
    max_input: int
    min_output: int
    max_output: int
    deprecated: bool
    body: bool
    family: str
    text: str

    def input(self, index: int) -> Parameter | None:
        """The formal parameter that the input at `index` binds to."""
        return _at(self.inputs, index)

    def output(self, index: int) -> Parameter | None:
        """The formal parameter that the output at `index` binds to."""
        return _at(self.outputs, index)


def _at(formals: tuple[Parameter, ...], index: int) -> Parameter | None:
    if index < len(formals):
        return formals[index]
    return formals[-1] if formals and formals[-1].option == "Variadic" else None


def _text(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


@cache
def _table() -> Any:
    return json.loads(_text("schema_table.json"))


@cache
def _rows() -> dict[str, dict[str, dict[str, str]]]:
    """What each version of each operator declares, in JSON, by domain and operator."""
    rows: dict[str, dict[str, dict[str, str]]] = {}
    for line in _text("schema_rows.tsv").splitlines():
        domain, op, version, declared = line.split("\t")
        rows.setdefault(domain, {}).setdefault(op, {})[version] = declared
    return rows


@cache
def vendor_table() -> Any:
    """The same of operators that are not ONNX's, and of the kernels that onnxruntime has for them on the CPU."""
    return json.loads(_text("vendor_table.json"))


def _operators(domain: str) -> Any:
    domain = normalize_domain(domain)
    return (vendor_table()["schemas"] if domain in VENDORS else _rows()).get(domain, {})


@cache
def versions(domain: str, op: str) -> tuple[int, ...]:
    """Every version at which `op` changed, ascending; empty for an operator that is not known."""
    return tuple(sorted(map(int, _operators(domain).get(op, ()))))


@cache
def since(domain: str, op: str, opset: int) -> int | None:
    """The version of `op` that is in force at `opset`; None if it does not exist there."""
    known = versions(domain, op)
    found = bisect_right(known, opset)
    return known[found - 1] if found else None


@cache
def schema(domain: str, op: str, opset: int) -> Schema | None:
    """The schema of `op` in force at `opset`; None if it does not exist there."""
    at = since(domain, op, opset)
    if at is None:
        return None
    domain = normalize_domain(domain)
    row, pool = _operators(domain)[op][str(at)], (vendor_table() if domain in VENDORS else _table())["types"]
    if domain not in VENDORS:
        row = json.loads(row)

    def parameter(name: str, kind: str, option: Any, types: int, homogeneous: bool) -> Parameter:
        return Parameter(name, kind, option, frozenset(pool[types]), homogeneous)

    def attribute(kind: str, required: bool, default: str | None) -> Attribute:
        proto = None if default is None else AttributeProto.FromString(b64decode(default))
        return Attribute(AttributeProto.AttributeType.Value(kind), required, proto)

    min_input, max_input, min_output, max_output = row["arity"]
    return Schema(
        domain,
        op,
        at,
        tuple(parameter(*formal) for formal in row["inputs"]),
        tuple(parameter(*formal) for formal in row["outputs"]),
        {name: attribute(*declared) for name, declared in row["attributes"].items()},
        min_input,
        max_input,
        min_output,
        max_output,
        row["deprecated"],
        row["body"],
        row["family"],
        row["text"],
    )


BEFORE_ITS_TIME = frozenset({"ThresholdedRelu"})
"""Experimental operators of ONNX 1.0 to 1.4 that became official later under the same name with the same meaning."""


def operators(domain: str) -> tuple[str, ...]:
    """Every operator that is known of `domain`, those that ONNX defined once among them."""
    return tuple(_operators(domain))


def kernels(domain: str, op: str) -> tuple[dict[str, frozenset[str]], ...]:
    """The types that onnxruntime's kernels of a vendor's operator take on the CPU, by type variable; empty for none."""
    rows = vendor_table()["kernels"].get(domain, {}).get(op, ())
    return tuple({variable: frozenset(types) for variable, types in row.items()} for row in rows)


def domains() -> tuple[str, ...]:
    """The domains whose operators ONNX itself defines."""
    return tuple(_rows())


def is_onnx_domain(domain: str) -> bool:
    """Whether ONNX itself defines the operators of `domain`."""
    return normalize_domain(domain) in _rows()


@cache
def latest(domain: str = "") -> int:
    """The newest opset of `domain` that is known."""
    if domain in VENDORS:
        return max(version for op in operators(domain) for version in versions(domain, op))
    return max(map(int, _table()["ir"][normalize_domain(domain)]))


@cache
def newest_opset(ir: int) -> int:
    """The newest opset of the default domain that a model of an IR version may import."""
    return next((opset for opset in range(latest(), 0, -1) if ir_version("", opset) <= ir), latest())


def ir_version(domain: str, opset: int) -> int:
    """The IR version that was current when `opset` was released (`onnx.helper.VERSION_TABLE`)."""
    table = {int(k): v for k, v in _table()["ir"].get(normalize_domain(domain), {}).items()}
    reached = [ir for released, ir in table.items() if released <= opset]
    return max(reached, default=3)


def type_since(kind: str) -> int:
    """The first opset at which some operator of the default domain takes a type that is known."""
    return int(_table()["types_since"][kind])


@cache
def types_at(opset: int) -> frozenset[str]:
    """Every type that some operator of the default domain takes at `opset`."""
    return frozenset(text for text, first in _table()["types_since"].items() if first <= opset)


@cache
def has_subgraphs(domain: str, op: str) -> bool:
    """Whether any version of `op` takes graphs as attributes; True for operators that ONNX does not define."""
    domain = normalize_domain(domain)
    return op not in _rows().get(domain, {}) or op in _table()["holding_graphs"][domain]


Difference = Literal["none", "widened", "narrowed", "changed"]


@cache
def difference(domain: str, op: str, older: int, newer: int) -> Difference:
    """What the schemas alone prove about two versions of an operator.

    `none`: the same schema, the same text. `widened`: the newer one takes more types, `narrowed`: fewer, and
    nothing else differs. `changed`: anything else, a different text included, which only a person can judge.
    """
    old, new = schema(domain, op, older), schema(domain, op, newer)
    if old is None or new is None or old.deprecated != new.deprecated or old.text != new.text:
        return "changed"
    if _shape(old) != _shape(new):
        return "changed"
    pairs = list(zip((*old.inputs, *old.outputs), (*new.inputs, *new.outputs), strict=True))
    if all(a.types == b.types for a, b in pairs):
        return "none"
    if all(a.types <= b.types for a, b in pairs):
        return "widened"
    return "narrowed" if all(a.types >= b.types for a, b in pairs) else "changed"


@cache
def alike(domain: str, op: str, older: int, newer: int) -> bool:
    """Whether two versions of an operator have the same inputs, outputs and attributes, whatever types they take."""
    old, new = schema(domain, op, older), schema(domain, op, newer)
    return old is not None and new is not None and old.deprecated == new.deprecated and _shape(old) == _shape(new)


def _shape(of: Schema) -> object:
    defaults = {
        name: (a.type, a.required, a.default and a.default.SerializeToString(deterministic=True))
        for name, a in of.attributes.items()
    }
    formals = [(p.name, p.type, p.option, p.homogeneous) for p in (*of.inputs, *of.outputs)]
    return defaults, formals, of.min_input, of.max_input, of.min_output, of.max_output


def legal_types(kind: str | None, parameter: schemas.Parameter) -> bool:
    """Whether a type is known and one that the parameter takes."""
    return kind is not None and kind in parameter.types

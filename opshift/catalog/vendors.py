"""Write `vendor_table.json`: what onnxruntime's registry knows about operators that are not ONNX's.

`python -m opshift.catalog.vendors [PATH]` regenerates the table from the installed onnxruntime, `--new`
lists what the installed one has and the table has not. Conversions read the table instead of importing onnxruntime.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx.defs
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as registry

from opshift.passes.model import schemas
from opshift.passes.model.schemas import MICROSOFT, NCHWC, NHWC, ONNXRUNTIME, vendor_table

TABLE = Path(schemas.__file__).with_name("vendor_table.json")
DOMAINS = {"": ONNXRUNTIME, MICROSOFT: MICROSOFT, NCHWC: NCHWC, NHWC: NHWC}
"""The domains in files, and what the table calls them: of the default one it holds what ONNX does not define."""

Row = dict[str, Any]


def _fingerprint(schema: Any) -> str:
    texts = [schema.doc or ""]
    texts += [f"{p.name}:{p.description}" for p in [*schema.inputs, *schema.outputs]]
    texts += [f"{name}:{a.description}" for name, a in sorted(schema.attributes.items())]
    return hashlib.sha256(" ".join(" ".join(texts).split()).encode()).hexdigest()[:12]


def _row(schema: Any, pool: dict[tuple[str, ...], int]) -> Row:
    def types(texts: Iterable[str]) -> int:
        return pool.setdefault(tuple(sorted(texts)), len(pool))

    def parameters(formals: Any) -> list[list[Any]]:
        return [[p.name, p.typeStr, p.option.name, types(p.types), p.isHomogeneous] for p in formals]

    def attribute(declared: Any) -> list[Any]:
        default = base64.b64encode(declared._default_value).decode() if declared._default_value else None
        return [declared.type.name, declared.required, default]

    return {
        "attributes": {name: attribute(declared) for name, declared in sorted(schema.attributes.items())},
        "inputs": parameters(schema.inputs),
        "outputs": parameters(schema.outputs),
        "arity": [schema.min_input, schema.max_input, schema.min_output, schema.max_output],
        "deprecated": schema.deprecated,
        "body": False,
        "family": "microsoft",
        "text": _fingerprint(schema),
    }


def tabulate() -> dict[str, Any]:
    """The whole table, from the installed onnxruntime."""
    standard = {(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()}
    pool: dict[tuple[str, ...], int] = {}
    found: dict[str, dict[str, dict[str, Row]]] = {name: {} for name in DOMAINS.values()}
    for schema in sorted(registry.get_all_operator_schema(), key=lambda s: (s.domain, s.name, s.since_version)):
        if schema.domain in DOMAINS and (schema.domain, schema.name, schema.since_version) not in standard:
            held = found[DOMAINS[schema.domain]].setdefault(schema.name, {})
            held[str(schema.since_version)] = _row(schema, pool)
    kernels: dict[str, dict[str, list[dict[str, list[str]]]]] = {}
    for kernel in registry.get_all_opkernel_def():
        domain, name = DOMAINS.get(kernel.domain, ""), kernel.op_name
        since, until = kernel.version_range
        if kernel.provider == "CPUExecutionProvider" and any(
            since <= int(v) <= until for v in found.get(domain, {}).get(name, ())
        ):
            taken = {variable: sorted(types) for variable, types in sorted(kernel.type_constraints.items())}
            kernels.setdefault(domain, {}).setdefault(name, []).append(taken)
    ordered = {d: {op: sorted(rows, key=str) for op, rows in sorted(ops.items())} for d, ops in sorted(kernels.items())}
    return {
        "source": f"onnxruntime {onnxruntime.__version__}",
        "types": list(pool),
        "schemas": found,
        "kernels": ordered,
    }


def render() -> str:
    """The table as the JSON text that is committed."""
    return json.dumps(tabulate(), separators=(",", ":")).replace('},"', '},\n"') + "\n"


def new() -> list[str]:
    """What the installed onnxruntime has and the table has not: operators, and those whose text is another one."""
    held, found = vendor_table()["schemas"], tabulate()["schemas"]
    return [
        f"{domain}::{op} {version}: {'its text changed' if version in held.get(domain, {}).get(op, {}) else 'new'}"
        for domain, ops in found.items()
        for op, rows in ops.items()
        for version, row in rows.items()
        if held.get(domain, {}).get(op, {}).get(version, {}).get("text") != row["text"]
    ]


if __name__ == "__main__":
    if sys.argv[1:] == ["--new"]:
        print("\n".join(new()))
    else:
        target = Path(sys.argv[1]) if len(sys.argv) > 1 else TABLE
        target.write_text(render(), encoding="utf-8", newline="\n")

"""Write `schema_table.json` and `schema_rows.tsv`: what `onnx.defs` knows about every operator version.

`python -m opshift.passes.model.tabulate [FOLDER]` regenerates them from the installed onnx. Conversions read them
instead of importing onnx, which would cost more than converting a small model; a test keeps both equal. A row is one
version of one operator, and is parsed when it is asked for: all of them take half as long as a small model.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import onnx.defs
import onnx.helper

DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview.training")
Row = dict[str, Any]


def _type_text(text: str) -> str:
    return re.sub(r"map\((\w+), (\w+)\)", r"map(\1,tensor(\2))", text)


def _fingerprint(schema: onnx.defs.OpSchema) -> str:
    """A hash of everything a person would read: two versions that share it say the same."""
    texts = [schema.doc or ""]
    texts += [f"{p.name}:{p.description}" for p in [*schema.inputs, *schema.outputs]]
    texts += [f"{name}:{a.description}" for name, a in sorted(schema.attributes.items())]
    return hashlib.sha256(" ".join(" ".join(texts).split()).encode()).hexdigest()[:12]


def _default(attribute: onnx.defs.OpSchema.Attribute) -> str | None:
    value = attribute.default_value
    return base64.b64encode(value.SerializeToString(deterministic=True)).decode() if value.name else None


def _row(schema: Any, pool: dict[tuple[str, ...], int]) -> Row:
    def types(texts: Any) -> int:
        return pool.setdefault(tuple(sorted({_type_text(t) for t in texts})), len(pool))

    def parameters(formals: Any) -> list[list[Any]]:
        return [[p.name, p.type_str, p.option.name, types(p.types), p.is_homogeneous] for p in formals]

    return {
        "attributes": {name: [a.type.name, a.required, _default(a)] for name, a in sorted(schema.attributes.items())},
        "inputs": parameters(schema.inputs),
        "outputs": parameters(schema.outputs),
        "arity": [schema.min_input, schema.max_input, schema.min_output, schema.max_output],
        "deprecated": schema.deprecated,
        "body": schema.has_function or schema.has_context_dependent_function,
        "family": Path(schema.file).parent.name,
        "text": _fingerprint(schema),
    }


def ir_versions() -> dict[str, dict[str, int]]:
    """The first IR version released with each opset, for each domain."""
    table: dict[str, dict[str, int]] = {"": {}, "ai.onnx.ml": {}, "ai.onnx.preview.training": {}}
    for _, ir, *opsets in onnx.helper.VERSION_TABLE:
        for domain, opset in zip(table, opsets, strict=False):
            table[domain].setdefault(str(opset), ir)
    return table


def tabulate() -> dict[str, Any]:
    """The whole table, from the installed onnx."""
    pool: dict[tuple[str, ...], int] = {}
    schemas: dict[str, dict[str, dict[str, Row]]] = {domain: {} for domain in DOMAINS}
    ordered = sorted(onnx.defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version))
    for schema in ordered:
        if schema.domain in schemas:
            by_version = schemas[schema.domain].setdefault(schema.name, {})
            by_version[str(schema.since_version)] = _row(schema, pool)
    return {"ir": ir_versions(), "types": [list(types) for types in pool], "schemas": schemas}


def _types_since(table: dict[str, Any]) -> dict[str, int]:
    """The first opset at which an operator of the default domain takes each type; none is taken back."""
    since: dict[str, int] = {}
    for versions in table["schemas"][""].values():
        for version, row in versions.items():
            for _, _, _, types, _ in (*row["inputs"], *row["outputs"]):
                for text in table["types"][types]:
                    since[text] = min(since.get(text, int(version)), int(version))
    return dict(sorted(since.items()))


def _holding_graphs(table: dict[str, Any]) -> dict[str, list[str]]:
    """The operators that take graphs as attributes at any version, by domain."""

    def holds(row: Row) -> bool:
        return any(kind in ("GRAPH", "GRAPHS") for kind, _, _ in row["attributes"].values())

    return {domain: [op for op in ops if any(map(holds, ops[op].values()))] for domain, ops in table["schemas"].items()}


def render() -> dict[str, str]:
    """The text of each file that is committed."""
    table = tabulate()
    shared = {key: table[key] for key in ("ir", "types")}
    shared |= {"types_since": _types_since(table), "holding_graphs": _holding_graphs(table)}
    rows = [
        "\t".join([domain, op, version, json.dumps(row, separators=(",", ":"))])
        for domain, ops in table["schemas"].items()
        for op, versions in ops.items()
        for version, row in versions.items()
    ]
    lines = [f"{json.dumps(key)}:{json.dumps(held, separators=(',', ':'))}" for key, held in shared.items()]
    return {"schema_table.json": "{" + ",\n".join(lines) + "}\n", "schema_rows.tsv": "\n".join(rows) + "\n"}


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, text in render().items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")

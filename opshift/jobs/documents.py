"""Make the JSON documents of `--format json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opshift.jobs.exit_codes import NAMES
from opshift.jobs.outcome import FileFacts, Outcome, Prospect, text
from opshift.passes.model import schemas
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.passes.records import asdict

if TYPE_CHECKING:
    from opshift.jobs.batch import FileResult
    from opshift.jobs.contents import Contents
    from opshift.jobs.fates import Fates
    from opshift.jobs.readers import Readers
    from opshift.passes.backends.door import Backend
    from opshift.passes.changes import Result
    from opshift.passes.errors import Refusal

VERSION = "opshift/1"
"""Which schema documents follow."""


def schema_file() -> Path:
    """The path of the JSON Schema."""
    return Path(__file__).with_name(f"{VERSION.replace('/', '-')}.json")


def render_document(command: str, document: Mapping[str, Any]) -> str:
    """Write a document as text, with its schema and the command. Every command calls it for `--format json`."""
    whole = {"schema": VERSION, "command": command, **document}
    return json.dumps(_finite(whole), indent=2, default=text, allow_nan=False)


def _finite(held: Any) -> Any:
    """Replace NaN and infinity by null, which JSON does not have. Runs over each document before it is written."""
    if isinstance(held, float):
        return held if isfinite(held) else None
    if isinstance(held, Mapping):
        return {text(key): _finite(value) for key, value in held.items()}
    return [_finite(value) for value in held] if isinstance(held, (list, tuple)) else held


def failure(code: int, lines: Sequence[str]) -> dict[str, Any]:
    """Describe an error: exit code, its name, and the message."""
    return {"error": {"code": code, "kind": NAMES[code], "message": "\n".join(lines)}}


def of_result(result: FileResult) -> dict[str, Any]:
    """Describe one of many models, with its exit code and the reason for a failure.

    Used by `--format json` with several models.
    """
    described = {"source": result.source, "output": ""} if result.outcome is None else as_facts(result.outcome)
    return {**described, "code": result.code, "why": result.why}


_PARTS = ("boundary", "found", "supported", "fix")  # of a refusal, beside its fields


def as_facts(held: Outcome | Prospect) -> dict[str, Any]:
    """Describe a conversion's outcome, or what a target supports of a model, as a dictionary for JSON."""
    described: dict[str, Any] = asdict(held)
    described["changes"] = [change._asdict() for change in held.changes]
    if isinstance(held, Outcome):
        described["taken_back"] = [{**back.change._asdict(), "why": back.why} for back in held.taken_back]
    for key in ("obstacles", "refusals", "needs", "stays", "unread"):
        if key in described:
            rows: tuple[Refusal, ...] = getattr(held, key)
            described[key] = [
                {**asdict(r), **{part: getattr(r, part) for part in _PARTS}, "text": str(r)} for r in rows
            ]
    return described


def of_inspection(
    found: FileFacts, held: Contents, of: Fates, reach: Mapping[int, Result], read: Readers | None = None
) -> dict[str, Any]:
    """Describe a model, and which opsets it can reach, as far as they were tried. Used by `inspect --format json`."""
    reached = {
        str(opset): {"reachable": not result.refusals, "grade": result.grade, "why": list(map(str, result.refusals))}
        for opset, result in reach.items()
    }
    vendors = {op: asdict(fate) for op, fate in of.items()}
    return {
        **asdict(found),
        "contents": asdict(held),
        "vendors": vendors,
        "reach": reached,
        "readers": read and asdict(read),
    }


def of_backend(backend: Backend) -> dict[str, Any]:
    """Describe a target, in the terms of target files. Used by `targets --format json`."""
    described = {key: getattr(backend, key) for key in ("name", "opset", "ir_version", "ml_opset", "source")}
    missing = sorted(backend.missing("", backend.opset or schemas.latest()))
    return {
        **described,
        "missing": [op for _, op in missing],
        "vendors": sorted(f"{domain}::{op}" for domain, op in backend.vendors),
        "lacks_types": sorted(set(ELEMENT_TYPES) - backend.types) if backend.types else [],
        "casts": dict(backend.casts),
        "static_shapes": backend.static_shapes,
        "functions": backend.functions,
        "folds_sizes": backend.folds_sizes,
        "folded": backend.folded,
        "limits": [
            {**asdict(limit), "ops": sorted(op for _, op in limit.ops), "types": sorted(limit.types)}
            for limit in backend.limits
        ],
    }

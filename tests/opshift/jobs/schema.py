"""Write the JSON Schema of all documents that programs are told, made of the classes that the documents are made of.

`python -m tests.lab schema` puts it where `opshift schema` reads it, and into `docs/schema/`, which holds each
version. A key that is added keeps the version; one that goes, or means something else, takes the next.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from opshift.passes.backends.backend import Limit
from opshift.passes.changes import Change
from opshift.passes.errors import Refusal
from opshift.passes.operators.shared.classical.described import Trees
from opshift.passes.types.describing import Convertible

from opshift.jobs import documents
from opshift.jobs.contents import Contents
from opshift.jobs.difference import Difference
from opshift.jobs.documents import VERSION
from opshift.jobs.exit_codes import NAMES
from opshift.jobs.fates import Fate
from opshift.jobs.measuring import Deviation
from opshift.jobs.outcome import FileFacts, Outcome, Prospect
from opshift.jobs.readers import Readers
from opshift.jobs.sharing import Shared
from opshift.jobs.yielding import TakenBack
from opshift.trying.tried import Tried
from opshift.verification.verdict import Verification

FILES = (documents.schema_file(), Path(__file__).parents[3] / "docs" / "schema" / documents.schema_file().name)
_LATER = {
    "Deviation": Deviation,
    "Trees": Trees,
    "TakenBack": TakenBack,
    "Tried": Tried,
    "Verification": Verification,
    "Convertible": Convertible,
}
"""Types that the modules that name them import where they need them alone."""
Schema = dict[str, Any]
_TEXT, _COUNT, _FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_PLAIN: Mapping[Any, Schema] = {
    str: _TEXT,
    int: _COUNT,
    bool: _FLAG,
    float: {"type": ["number", "null"], "description": "null for what is not finite"},
    NoneType: {"type": "null"},
    Any: {},
}


def render() -> str:
    """The schema as the text that is committed."""
    return json.dumps(schema(), indent=2) + "\n"


def schema() -> Schema:
    """The schema as values that JSON has."""
    made = _Definitions()
    facts, outcome = made.fields(FileFacts), made.fields(Outcome)
    code: Schema = {"enum": sorted(NAMES)}
    why = {"type": "string"}
    unread = {"source": _TEXT, "output": _TEXT, "code": code, "why": why}
    reached = _object({"reachable": _FLAG, "grade": _TEXT, "why": _list(_TEXT)})
    documents = {
        "conversion": ("convert, inline, fold, optimize, extract or merge", outcome),
        "conversions": (
            "the same of several",
            {"models": _list({"anyOf": [_object({**outcome, "code": code, "why": why}), _object(unread)]})},
        ),
        "verification": ("verify", made.fields(Verification)),
        "inspection": (
            "inspect",
            {
                **facts,
                "contents": made.of(Contents),
                "vendors": _map(made.of(Fate)),
                "reach": _map(reached),
                "readers": made.of(Readers | None),
            },
        ),
        "sharing": ("strip or fill", made.fields(Shared)),
        "difference": ("diff", made.fields(Difference)),
        "prospect": ("inspect --target or --opset", {**facts, "target": made.of(Prospect)}),
        "prospects": ("inspect --target all", {**facts, "targets": _map(made.of(Prospect))}),
        "targets": ("targets", {"targets": _map(made.target())}),
        "error": (
            "any command that came to no result",
            {"error": _object({"code": code, "kind": {"enum": list(NAMES.values())}, "message": _TEXT})},
        ),
    }
    head = {"schema": {"const": VERSION}, "command": _TEXT}
    held = {name: {**_object({**head, **keys}), "description": told} for name, (told, keys) in documents.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{VERSION.replace('/', ':')}",
        "title": "What opshift says with --format json",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in held],
        "$defs": {**held, **made.found},
    }


class _Definitions:
    """Schemas of classes, each once."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of values of a type."""
        if kind in _PLAIN:
            return _PLAIN[kind]
        origin, inner = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            return {"anyOf": [self.of(one) for one in inner]}
        if origin is not None and issubclass(origin, Mapping):
            return _map(self.of(inner[1]))
        if origin is not None:
            return _list(self.of(inner[0]))
        if kind.__name__ not in self.found:
            self.found[kind.__name__] = {}  # for what holds itself
            self.found[kind.__name__] = {**_object(self.fields(kind)), "description": _summary(kind)}
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def fields(self, kind: type) -> dict[str, Schema]:
        """The keys of a class, with what its docstring says of them."""
        told = _told(kind)
        hints = get_type_hints(kind, localns=_LATER)
        names = [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(hints)
        keys = {name: {**self.of(hints[name]), **told.get(name, {})} for name in names}
        if kind is Refusal:
            keys |= {
                "boundary": _TEXT,
                "found": _TEXT,
                "supported": _TEXT,
                "fix": _TEXT,
                "text": {**_TEXT, "description": "all of it in a sentence"},
            }
        if keys.keys() == {"change", "why"}:  # a change that was taken back is written as one
            return {**self.fields(Change), "why": keys["why"]}
        return keys

    def target(self) -> Schema:
        """A target, which is written as its file has it."""
        limit = {**self.fields(Limit), "ops": _list(_TEXT), "types": _list(_TEXT)}
        number = {"type": ["integer", "null"]}
        flags = dict.fromkeys(("static_shapes", "functions", "folds_sizes", "folded"), _FLAG)
        names = dict.fromkeys(("missing", "vendors", "lacks_types"), _list(_TEXT))
        numbers = dict.fromkeys(("opset", "ir_version", "ml_opset"), number)
        return _object(
            {
                "name": _TEXT,
                **numbers,
                "source": _TEXT,
                **names,
                "casts": _map(_TEXT),
                **flags,
                "limits": _list(_object(limit)),
            }
        )


def _object(keys: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(keys), "required": list(keys), "additionalProperties": False}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _summary(kind: type) -> str:
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def _told(kind: type) -> dict[str, Schema]:
    """What the docstring of a class says of its attributes."""
    _, _, attributes = (kind.__doc__ or "").partition("Attributes:\n")
    found = re.findall(r"^        (\w[\w, ]*): (.*(?:\n            .*)*)", attributes, re.MULTILINE)
    return {
        name: {"description": " ".join(text.replace("`", "").split())}
        for names, text in found
        for name in names.split(", ")
    }


if __name__ == "__main__":
    for file in FILES:
        file.write_text(render(), encoding="utf-8")

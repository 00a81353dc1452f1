"""Targets: what a backend reads, by name, from the TOML files under `targets/`, each with its source."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Target:
    """A backend: the newest opset and IR version that it reads, and where that is written."""

    name: str
    opset: int
    ir_version: int
    source: str
    ml_opset: int | None = None


@cache
def targets() -> dict[str, Target]:
    """Every known target by name."""
    found: dict[str, Target] = {}
    for entry in files("opshift").joinpath("targets").iterdir():
        if entry.name.endswith(".toml"):
            held: dict[str, Any] = tomllib.loads(entry.read_text(encoding="utf-8"))
            for version, row in held["versions"].items():
                name = f"{held['name']}-{version}"
                found[name] = Target(name, row["opset"], row["ir"], held["source"], row.get("ml"))
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def _order(name: str) -> tuple[str, tuple[int, ...]]:
    stem, _, version = name.rpartition("-")
    return stem, tuple(int(part) for part in version.split(".") if part.isdigit())

"""Find the targets that read a model as it is, and operators of the model that many runtimes lack."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opshift.jobs.outcome import text
from opshift.passes import progress
from opshift.passes.backends.door import Backend, obstacles
from opshift.passes.backends.door import targets as known
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.model.traversal import census

RARE = 1 / 3
"""An operator is rare if more than this share of the runtimes lacks it."""


@dataclass(frozen=True)
class Readers:
    """Which targets read a model.

    Attributes:
        reads: the versions that read the model, the oldest first, by the name of the runtime.
        blocked: for each other runtime, how many calls its newest version does not support.
    """

    reads: dict[str, list[str]]
    blocked: dict[str, int]


def readers(model: ModelProto, folder: str | None) -> Readers:
    """List targets that support a model as it is, as far as is known, for `opshift inspect`."""
    reads, blocked = dict[str, list[str]](), dict[str, int]()
    families = _group_targets()
    for place, (name, versions) in enumerate(families.items(), 1):
        progress.tell(f"check {name}", place, len(families))
        count = len(list(obstacles(model, versions[-1], folder)))
        if count:
            blocked[versions[-1].name] = count
        else:
            reads[name] = [each.name for each in versions[_find_oldest(model, versions, folder) :]]
    return Readers(reads, blocked)


def _find_oldest(model: ModelProto, versions: Sequence[Backend], folder: str | None) -> int:
    """Find the place of the oldest version that supports the model; all newer versions are assumed to support it."""
    low, high = -1, len(versions) - 1  # `high` reads it; `low` does not, or is before the first
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if not any(obstacles(model, versions[middle], folder)) else (middle, high)
    return high


def rare_operators(model: ModelProto) -> dict[str, int]:
    """Count for each operator of a model how many runtimes lack it, the rarest first."""
    newest = [versions[-1] for versions in _group_targets().values()]
    opset, found = opsets(model), dict[str, int]()
    for domain, op in census([*model.functions, model.graph])[1]:
        domain = normalize_domain(domain)
        if any((normalize_domain(function.domain), function.name) == (domain, op) for function in model.functions):
            continue
        lacking = sum(not backend.has(domain, op, backend.opset or opset.get(domain, 1)) for backend in newest)
        if lacking > RARE * len(newest):
            found[f"{text(domain)}::{text(op)}" if domain else text(op)] = lacking
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def count_runtimes() -> int:
    """How many runtimes are known."""
    return len(_group_targets())


def _group_targets() -> Mapping[str, list[Backend]]:
    """Group the targets by the name of their runtime, the newest version last."""
    by_runtime: dict[str, list[Backend]] = {}
    for name, backend in known().items():
        stem, version = re.fullmatch(r"(.*?)(?:-(\d[\d.]*))?", name).groups()  # type: ignore[union-attr]
        by_runtime.setdefault(stem if version else name, []).append(backend)
    return {
        name: sorted(versions, key=lambda each: [int(part) for part in re.findall(r"\d+", each.name)])
        for name, versions in by_runtime.items()
    }

"""Say what `--portable` would do to vendor operators, for `opshift inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opshift.jobs.outcome import text
from opshift.passes.backends.door import find_foreign_operators
from opshift.passes.goals import Goal
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.model.traversal import census
from opshift.passes.model.validity import is_runtime_extension


@dataclass(frozen=True)
class Fate:
    """How often a vendor operator is called, and what replaces it, or why it stays."""

    count: int
    becomes: str
    stays: str

    def __str__(self) -> str:
        return f"--portable: {self.becomes}" if self.becomes else f"stays: {self.stays}"


Fates = Mapping[str, Fate]
"""By the operator's name, as `domain::Name`."""


def fates(model: ModelProto, folder: str | None) -> Fates:
    """Find what `--portable` would do to each operator that is neither ONNX's nor a function of the model."""
    opset, calls = opsets(model).get("", 1), census([*model.functions, model.graph])[1]
    foreign = find_foreign_operators(model)
    vendor_ops = {op for op in calls if (normalize_domain(op[0]), op[1]) in foreign or is_runtime_extension(*op, opset)}
    if not vendor_ops:
        return {}
    tried = Goal(portable=True).run(model, folder)
    by_name: dict[str, Fate] = {}
    for domain, op in sorted(vendor_ops):
        why = next((refusal.why for refusal in tried.refusals if (refusal.domain, refusal.op) == (domain, op)), "")
        how = next((change.how for change in tried.changes if (change.domain, change.op) == (domain, op)), "")
        by_name[f"{text(domain)}::{text(op)}" if domain else text(op)] = Fate(
            calls[domain, op], "" if why else how, why
        )
    return by_name

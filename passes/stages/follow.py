"""Compute what follows of sizes and constants in nodes that came in after sizes were fixed, or for a backend."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.model.messages import ModelProto, copy_model
from opshift.passes.records import dataclass
from opshift.passes.specialization import fixing
from opshift.passes.specialization.wanted import Wanted
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class Follow:
    """Fix sizes once more in a model that has changed since; without any, compute what constants alone decide."""

    fixed: Wanted
    optional = False
    settles = "sizes"
    name = "compute what follows of sizes and constants"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        copy = copy_model(model)
        changes = fixing.followed(copy, self.fixed, facts.folder)
        return Result(copy, tuple(changes), ())

"""Fold what fixed sizes and constants decide, once more after a conversion."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.inputs.wanted import Wanted
from opshift.passes.model.messages import ModelProto, copy_model
from opshift.passes.records import dataclass
from opshift.passes.specialization.door import follow_fixed
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class Follow:
    """Fold what fixed sizes and inputs make constant in the nodes that a conversion added; without any, constants."""

    fixed: Wanted
    optional = False
    settles = "sizes"
    name = "propagate sizes and constants"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        copy = copy_model(model)
        changes = follow_fixed(copy, self.fixed, facts.folder)
        return Result(copy, tuple(changes), ())

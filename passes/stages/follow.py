"""Propagate fixed sizes into nodes that a conversion brought in."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.inputs.wanted import Wanted
from opshift.passes.model.messages import ModelProto, copy_model
from opshift.passes.records import dataclass
from opshift.passes.specialization.door import followed
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class Follow:
    """Propagate fixed sizes again, after a conversion brought in new nodes."""

    fixed: Wanted
    optional = False
    settles = "sizes"
    name = "propagate fixed sizes"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        copy = copy_model(model)
        changes = followed(copy, self.fixed, facts.folder)
        return Result(copy, tuple(changes), ())

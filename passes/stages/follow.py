"""Compute what follows of fixed sizes in nodes that came in after the sizes were fixed."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.inputs.wanted import Wanted
from opshift.passes.model.messages import ModelProto, copy_model
from opshift.passes.records import dataclass
from opshift.passes.specialization.door import followed
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class Follow:
    """Fix sizes once more in a model that has changed since."""

    fixed: Wanted
    optional = False
    settles = "sizes"
    name = "compute what follows of fixed sizes"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        copy = copy_model(model)
        changes = followed(copy, self.fixed, facts.folder)
        return Result(copy, tuple(changes), ())

"""Propagate fixed sizes and constants into nodes that a conversion brought in, or for a compiler."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.inputs.wanted import Wanted
from opshift.passes.model.messages import ModelProto, copy_model
from opshift.passes.records import dataclass
from opshift.passes.specialization.door import follow_fixed
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class Follow:
    """Propagate fixed sizes again, after a conversion; without any, compute what constants alone decide."""

    fixed: Wanted
    optional = False
    settles = "sizes"
    name = "propagate sizes and constants"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        """Compute what fixed sizes and constants decide in nodes that conversion brought in. Runs after them."""
        copy = copy_model(model)
        changes = follow_fixed(copy, self.fixed, facts.folder)
        return Result(copy, tuple(changes), ())

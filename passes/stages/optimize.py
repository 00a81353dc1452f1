"""Fold constants, and remove nodes that are unused, repeated or without effect."""

from __future__ import annotations

from opshift.passes.analysis.blaming import blaming
from opshift.passes.changes import Allowance, Result
from opshift.passes.model.messages import ModelProto
from opshift.passes.optimization.door import optimize
from opshift.passes.records import dataclass
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class Optimize:
    """Optimize until nothing changes any more."""

    optional = True
    settles = "optimized"
    name = "optimize"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        with blaming(model):
            return optimize(model, allowance=allowance, folder=facts.folder, survey=facts.survey)

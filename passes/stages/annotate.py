"""Write inferred types and shapes into the model."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass
from opshift.passes.specialization.door import annotate
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class Annotate:
    """Write inferred types and shapes of all values into the model."""

    optional = False
    settles = ""
    name = "annotate"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        return annotate(model)

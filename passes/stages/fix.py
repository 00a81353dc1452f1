"""Fix sizes and inputs, and the number of samples, and compute what follows."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.inputs.sizes import BatchSize
from opshift.passes.inputs.wanted import Wanted
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass
from opshift.passes.specialization.door import fix
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class Fix:
    """Write sizes and values of inputs into the model; `rebatch` is the number of samples, or `dynamic`.

    Raises:
        ValueError: the model has no such input or dimension, or does not take such sizes.
    """

    fixed: Wanted
    rebatch: BatchSize | None = None
    optional = False
    settles = "sizes"

    @property
    def name(self) -> str:
        asked = ["fix sizes and inputs"] if self.fixed else []
        asked += [f"take batches of {self.rebatch}"] if isinstance(self.rebatch, int) else []
        asked += ["take batches of any size"] if isinstance(self.rebatch, str) else []
        return " and ".join(asked)

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        return fix(model, self.fixed, self.rebatch, facts.folder)

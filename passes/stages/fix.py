"""Fix sizes, inputs and the batch, and fold what becomes constant."""

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
    """Write fixed sizes and inputs into the model; `rebatch` is the batch size, or `dynamic`.

    Raises:
        ValueError: the model has no such input or dimension, or does not take such sizes.
    """

    fixed: Wanted
    rebatch: BatchSize | None = None
    optional = False
    settles = "sizes"

    @property
    def name(self) -> str:
        """Name the stage by what is fixed: sizes and inputs, the batch size, or both."""
        asked = ["fix sizes and inputs"] if self.fixed else []
        asked += [f"set the batch size to {self.rebatch}"] if isinstance(self.rebatch, int) else []
        asked += ["make the batch size dynamic"] if isinstance(self.rebatch, str) else []
        return " and ".join(asked)

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        return fix(model, self.fixed, self.rebatch, facts.folder)

"""Add, drop and rename outputs, and rename inputs and sizes."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.inputs.ends import Ends
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass
from opshift.passes.stages.stage import Facts
from opshift.passes.surgery.door import change_ends


@dataclass(frozen=True)
class SetEnds:
    """Give the model the inputs and outputs that are asked for.

    Raises:
        ValueError: the model has no such name, a new one is taken, or no output would be left.
    """

    ends: Ends
    optional = False
    settles = ""

    @property
    def name(self) -> str:
        """Name the stage by what it does: add outputs, drop outputs, rename."""
        asked = ["add outputs"] if self.ends.added else []
        asked += ["drop outputs"] if self.ends.dropped else []
        asked += ["rename"] if self.ends.renamed else []
        return " and ".join(asked)

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        changed, changes = change_ends(model, self.ends)
        return Result(changed, changes, ())

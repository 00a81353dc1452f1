"""Add, drop and rename outputs, and rename inputs and sizes."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass
from opshift.passes.stages.stage import Facts
from opshift.passes.surgery.asked import Interface
from opshift.passes.surgery.interface import changed


@dataclass(frozen=True)
class SetInterface:
    """Give the model the inputs and outputs that are asked for.

    Raises:
        ValueError: the model has no such name, a new one is taken, or no output would be left.
    """

    interface: Interface
    optional = False
    settles = ""

    @property
    def name(self) -> str:
        asked = ["add outputs"] if self.interface.added else []
        asked += ["drop outputs"] if self.interface.dropped else []
        asked += ["rename"] if self.interface.renamed else []
        return " and ".join(asked)

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        made, changes = changed(model, self.interface)
        return Result(made, changes, ())

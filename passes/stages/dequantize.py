"""Write integer products as float products of dequantized values."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.fusion.door import SCALED, fold
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class Dequantize:
    """Replace scaled integer products by float ones. `Reach` has replaced the QLinear operators before."""

    optional = False
    settles = ""
    name = "dequantize"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        found = fold(model, ops=[SCALED], folder=facts.folder)
        return found if found.changes else Result(model, (), ())

"""Replace maps at a model's inputs and outputs by tensors."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass
from opshift.passes.specialization.door import as_tensors
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class MakeTensors:
    """Return scores instead of ZipMap's maps (`zipmap`), and take values instead of maps (`maps`)."""

    zipmap: bool
    maps: bool
    optional = False
    settles = ""
    name = "replace maps by tensors"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        changed, changes = as_tensors(model, zipmap=self.zipmap, maps=self.maps)
        return Result(changed, changes, ())

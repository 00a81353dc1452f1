"""Make tensors of the maps at the ends of a model."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass
from opshift.passes.specialization.door import as_tensors
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class MakeTensors:
    """Yield scores in the place of ZipMap's maps (`zipmap`), and read values in the place of maps (`maps`)."""

    zipmap: bool
    maps: bool
    optional = False
    settles = ""
    name = "make tensors of maps"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        changed, changes = as_tensors(model, zipmap=self.zipmap, maps=self.maps)
        return Result(changed, changes, ())

"""Keep quantized values in floats, for a backend that does not quantize."""

from __future__ import annotations

from opshift.passes.backends.door import keep_in_floats
from opshift.passes.changes import Allowance, Result
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class KeepInFloats:
    """Remove Casts to integers and back, which definitions of QuantizeLinear and DequantizeLinear bring."""

    optional = False
    settles = ""
    name = "keep quantized values in floats"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        return keep_in_floats(model, facts.folder)

"""Change element types: half precision and back."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass, replace
from opshift.passes.stages.stage import Facts
from opshift.passes.types.door import Types, change


@dataclass(frozen=True)
class ChangeTypes:
    """Let values have other element types, wherever operators take them and the values fit in."""

    wanted: Types
    optional = False
    settles = "types"

    @property
    def name(self) -> str:
        return f"change types to {self.wanted.label}"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        result = change(model, self.wanted, facts.folder, demanded=True)
        return replace(result, before=facts.survey.calls) if facts.survey is not None else result

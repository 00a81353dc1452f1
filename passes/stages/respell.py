"""Write calls in the forms that a backend reads, where sizes allow it."""

from __future__ import annotations

from opshift.passes.backends.door import Backend, find_respelled, respell
from opshift.passes.changes import Allowance, Result
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass
from opshift.passes.stages.stage import Facts


@dataclass(frozen=True)
class Respell:
    """Compute pads in place of auto_pad, and the like, where the backend refuses a value of an attribute."""

    backend: Backend
    optional = False
    settles = ""

    @property
    def name(self) -> str:
        return f"write calls as {self.backend.name} reads them"

    @property
    def is_needed(self) -> bool:
        """Whether there is a form that the backend refuses, and another for it."""
        return bool(find_respelled(self.backend))

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        return respell(model, self.backend, facts.folder)

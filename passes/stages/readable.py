"""Fold and optimize as far as a backend reads the result."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.backends.backend import Backend
from opshift.passes.backends.obstacles import obstacles
from opshift.passes.changes import Allowance, Result
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass, replace
from opshift.passes.stages.stage import Facts, Stage, apply_stages


@dataclass(frozen=True)
class Readable:
    """Apply optional stages so that the reader reads all that it read before.

    An operator that it does not read is kept out the next time; then `fewer` stages, which do not optimize, are
    applied; then none.
    """

    reader: Backend
    stages: Sequence[Stage]
    fewer: Sequence[Stage]
    optional = True
    settles = ""

    @property
    def name(self) -> str:
        return f"{' and '.join(dict.fromkeys(stage.name for stage in self.stages))} for {self.reader.name}"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        unread: frozenset[Op] = frozenset()
        folds = any(stage.name == "fold" for stage in self.stages)
        for stages in (self.stages, self.stages, self.fewer) if folds else (self.stages,):
            trial = allowance.keeping_out(unread)
            result = apply_stages(stages, model, replace(facts, settled=set(facts.settled)), trial)
            more = self._unread(result, model, facts.folder)
            if not more:
                allowance.made += trial.made
                return result
            unread |= more
        return Result(model, (), (), folded=0 if folds else None)

    def _unread(self, result: Result, model: ModelProto, folder: str | None) -> set[Op]:
        """The operators that the reader does not read in the result, but did before."""
        assert result.model is not None, "optional stages refuse nothing"
        found = {(obstacle.domain, obstacle.op) for obstacle in obstacles(result.model, self.reader, folder)}
        if found:
            found -= {(obstacle.domain, obstacle.op) for obstacle in obstacles(model, self.reader, folder)}
        return found

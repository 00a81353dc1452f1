"""Fold calls of operators that a backend lacks into operators that it has, before they are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.passes.changes import Allowance, Result
from opshift.passes.model import imports, schemas
from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass
from opshift.passes.stages.reach import Reach
from opshift.passes.stages.stage import Facts

if TYPE_CHECKING:
    from opshift.passes.backends.door import Backend


@dataclass(frozen=True)
class FoldLacked:
    """Fold what a model writes with operators that the backend has at no opset, such as GELU with Erf for Qualcomm QNN.

    The model is taken to the opset of the operator that comes in, if its own is older. A replacement would need more
    nodes, and often types that the backend lacks, too: Erf is approximated in double.
    """

    backend: Backend
    optional = True
    settles = ""

    @property
    def name(self) -> str:
        return f"fold what {self.backend.name} lacks"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        unchanged = Result(model, (), ())
        newest = self.backend.opset or schemas.latest()
        called = {op for domain, op in (facts.survey or Survey(model)).calls if not domain}
        lacked = {op for op in called if not any(self.backend.has("", op, opset) for opset in range(1, newest + 1))}
        if not lacked:
            return unchanged
        from opshift.passes.fusion.door import BY_NAME, FAMILIES  # slow to import
        from opshift.passes.stages.fold import fold_model

        written_with_lacked = [
            op
            for op, family in {**FAMILIES, **BY_NAME}.items()
            if lacked & (family.anchors | family.also) and not op[0]
        ]
        ops = {op for op in written_with_lacked if schemas.since(*op, newest) and self._reads(op, newest)}
        own, result = imports.opsets(model).get("", 1), unchanged
        for opset in sorted({max(own, min(schemas.versions(*op))) for op in ops}):
            lifted = result.join(Reach({"": opset}).apply(model, facts, allowance)) if opset > own else result
            if lifted.model is None:
                break
            folded = fold_model(lifted.model, frozenset(ops), self.backend, frozenset(), facts, allowance)
            if folded.changes and folded.model is not None:
                model, result = folded.model, lifted.join(folded)
        return result

    def _reads(self, op: Op, opset: int) -> bool:
        """Whether the backend has an operator, and a call of it ran where calls were measured."""
        return self.backend.has(*op, opset) and (not self.backend.measured or op in self.backend.measured)

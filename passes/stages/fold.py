"""Fold nodes into the operators that they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.passes.analysis.blaming import blaming
from opshift.passes.analysis.claims import CONTRADICTED
from opshift.passes.changes import Allowance, Result
from opshift.passes.fusion.door import fold
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass, replace
from opshift.passes.stages.stage import Facts

if TYPE_CHECKING:
    from opshift.passes.backends.door import Backend

EXPANDED_BY_ONNXRUNTIME: frozenset[Op] = frozenset([("", "GroupNormalization")])
"""onnxruntime has no CPU kernel for these. It expands them into more nodes than they replace, and is slower."""


@dataclass(frozen=True)
class Fold:
    """Fold nodes into operators.

    Attributes:
        ops: only these; None for all that exporters write as several nodes.
        reader: the backend that has to support the result; operators that it lacks do not come in.
        avoided: operators that would make the model slower.
    """

    ops: frozenset[Op] | None = None
    reader: Backend | None = None
    avoided: frozenset[Op] = frozenset()
    optional = True
    settles = ""
    name = "fold"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        return fold_model(model, self.ops, self.reader, self.avoided, facts, allowance)


def fold_model(
    model: ModelProto,
    ops: frozenset[Op] | None,
    reader: Backend | None,
    avoided: frozenset[Op],
    facts: Facts,
    allowance: Allowance,
) -> Result:
    """Fold nodes into operators that the backend has, the user did not ask to replace, and the allowance permits.

    Shared by the stages `Fold` and `Quantize`.
    """
    lacking = {*facts.replaced, *allowance.kept_out, *avoided}
    if reader is not None:
        lacking |= {op for domain, opset in opsets(model).items() for op in reader.missing(domain, opset)}
    with blaming(model):
        folded = fold(model, ops=ops, lacking=lacking, allowance=allowance, folder=facts.folder)
    return replace(folded, folded=sum(change.how != CONTRADICTED for change in folded.changes))

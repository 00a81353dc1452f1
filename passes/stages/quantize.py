"""Fold float operators between DequantizeLinear and QuantizeLinear into QLinear operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.passes.changes import Allowance, Result
from opshift.passes.fusion.door import INTEGERS, MOVED
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass, replace
from opshift.passes.stages.fold import fold_model
from opshift.passes.stages.stage import Facts

if TYPE_CHECKING:
    from opshift.passes.backends.door import Backend


@dataclass(frozen=True)
class Quantize:
    """Fold into QLinearConv and QLinearMatMul where scales and zero points allow it; see `Fold` for the attributes."""

    reader: Backend | None = None
    avoided: frozenset[Op] = frozenset()
    optional = True
    settles = ""
    name = "quantize"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        folded = fold_model(model, INTEGERS | {MOVED}, self.reader, self.avoided, facts, allowance)
        return folded if folded.folded else replace(folded, folded=None)  # a user who did not ask to fold reads no 0

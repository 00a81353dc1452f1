"""Write integer products as float products of dequantized values."""

from __future__ import annotations

from opshift.passes.changes import Allowance, Result
from opshift.passes.fusion.door import SCALED, fold
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass
from opshift.passes.stages.stage import Facts

_INTEGER_PRODUCTS = {"ConvInteger", "MatMulInteger"}


@dataclass(frozen=True)
class Dequantize:
    """Replace scaled integer products by float ones.

    `Reach` has replaced the QLinear operators before. For a backend that multiplies only floats, the stage comes first.
    """

    optional = False
    settles = ""
    name = "dequantize"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        """Replace scaled integer products by products of dequantized floats, if the model has any.

        The stage loop calls it.
        """
        if facts.survey is not None and {op for _, op in facts.survey.calls}.isdisjoint(_INTEGER_PRODUCTS):
            return Result(model, (), ())
        folded = fold(model, ops=[SCALED], folder=facts.folder)
        return folded if folded.changes else Result(model, (), ())

"""Reductions that add numbers: another order rounds otherwise."""

from __future__ import annotations

from opshift.passes.rewrite.says import says
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import Outcome, rule
from opshift.passes.simplification.rules.axes import reduce_unmoved


@says("Removed a Transpose that only moves axes of a reduction")
@rule("ReduceL1", "ReduceL2", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", close=True, settles=True)
def reduce_sum_unmoved(call: Call) -> Outcome:
    """Sum the axes where they were before a Transpose, as maxima are taken."""
    outcome = reduce_unmoved(call)
    if outcome:
        call.close("may add in another order")
    return outcome

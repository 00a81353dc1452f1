"""Zeros that are added: what takes -0.0 for 0.0 does without them, exactly."""

from __future__ import annotations

from opshift.passes.rewrite.says import says
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import Outcome, rule
from opshift.passes.simplification.rules.identities import beside_unit

_BLIND = frozenset(
    [
        *("Abs", "Cos", "Equal", "Exp", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("LogSoftmax", "Sigmoid", "Softmax", "Softplus"),
    ]
)
"""Operators that compute the same of 0.0 and of -0.0."""


def _bare(call: Call) -> str | None:
    """What an Add or Sub of a zero is given, whose result differs from it by the sign of a zero at most."""
    return beside_unit(call, lambda held: held == 0, commutes=call.op == "Add")


@says("Removed an addition of 0 where the sign of a zero does not matter")
@rule("Add", "Sub")
def pass_on_before_blind(call: Call) -> Outcome:
    bare = _bare(call)
    if bare is None or call.space.is_protected(call.output):
        return None
    readers = call.space.whole.readers(call.output)
    seen = sum(list(node.input).count(call.output) for node in readers)
    all_blind = all(node.op_type in _BLIND and not node.domain for node in readers)
    return bare if all_blind and call.space.whole.check_uses(call.output, seen) else None


@says("Removed an addition of 0")
@rule("Add", "Sub", close=True)
def pass_on_sum(call: Call) -> Outcome:
    bare = _bare(call)
    if bare is not None:
        call.close("keeps -0.0, where the sum is 0.0")
    return bare

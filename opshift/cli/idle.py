"""Report that there was nothing to do."""

from __future__ import annotations

from opshift.cli.printing import join_names
from opshift.jobs.outcome import Outcome
from opshift.passes.records import replace


def describe_idle(outcome: Outcome) -> list[str]:
    """Write a line each for what was asked and not found in the model; none about refusals."""
    lines = ["nothing to fold"] if outcome.folded == 0 and not outcome.taken_back else []
    if outcome.absent:
        lines.append(f"nothing to inline: the model has no {join_names(outcome.absent)}")
    return lines or (["nothing to do: the model is already as you asked"] if _is_equal(outcome) else [])


def _is_equal(outcome: Outcome) -> bool:
    """Tell whether a conversion changed nothing; the size of the file does not count."""
    if (
        outcome.after is None
        or outcome.changes
        or outcome.taken_back
        or outcome.control_flow
        or outcome.tried is not None
    ):
        return False
    return replace(outcome.after, size=0) == replace(outcome.before, size=0)

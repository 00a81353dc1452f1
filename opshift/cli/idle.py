"""What a person is told where there was nothing to be done."""

from __future__ import annotations

from opshift.cli.printing import join_names
from opshift.jobs.outcome import Outcome
from opshift.passes.records import replace


def describe_idle(outcome: Outcome) -> list[str]:
    """That nothing was found, line by line; nothing of what is refused."""
    lines = ["nothing to fold"] if outcome.folded == 0 and not outcome.taken_back else []
    if outcome.absent:
        lines.append(f"nothing to inline: the model has no {join_names(outcome.absent)}")
    return lines or (["nothing to do: the model is already as you asked"] if _is_equal(outcome) else [])


def _is_equal(outcome: Outcome) -> bool:
    """Whether a model became what it was; how many bytes say that is no matter."""
    if (
        outcome.after is None
        or outcome.changes
        or outcome.taken_back
        or outcome.control_flow
        or outcome.tried is not None
    ):
        return False
    return replace(outcome.after, size=0) == replace(outcome.before, size=0)

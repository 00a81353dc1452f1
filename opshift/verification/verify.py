"""Verify two models in another process, within a time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

from opshift.passes.inputs.interface import check_name
from opshift.passes.records import replace
from opshift.verification import isolation
from opshift.verification.engines import EngineError
from opshift.verification.feeding.asked import DRAWN, Asked
from opshift.verification.side import Side
from opshift.verification.verdict import DIFFERENT, UNVERIFIED, Verification

P = ParamSpec("P")
SECONDS = 600
"""What a proof may take; it is ended then, and the models are not proved."""


def apart(verify: Callable[P, Verification], *arguments: P.args, **named: P.kwargs) -> Verification:
    """Call a function that compares models in another process; a crash makes the model unverified."""
    try:
        return isolation.call(verify, *arguments, **named)
    except (isolation.Ended, EngineError) as error:
        return Verification(UNVERIFIED, why=str(error))


def verify_apart(
    before: Side,
    after: Side,
    *,
    grade: str = "exact",
    wanted: Asked = DRAWN,
    plain: bool = True,
    promise: bool = False,
    rounded_to: int = 0,
) -> Verification:
    """Prove that two models compute the same, in another process; a crash makes the model unverified.

    `opshift verify` and every command that writes a model call it.
    """
    how = {"grade": grade, "wanted": wanted, "plain": plain, "promise": promise, "rounded_to": rounded_to}
    try:
        return isolation.call(_verify_in_time, before, after, **how)
    except isolation.Ended as ended:
        return Verification(UNVERIFIED, why=f"it took more than {SECONDS} s" if ended.late else str(ended))


def compare_models(before: Side, after: Side, wanted: Asked, *, exact: bool) -> Verification:
    """Compare two models of any origin; with `--exact`, other rounding is a difference.

    Raises:
        ValueError: `--map` names an input or output that there is not.
    """
    for side, names, which in ((before, wanted.map.keys(), "first"), (after, wanted.map.values(), "second")):
        ends = [value.name for value in (*side.model.graph.output, *side.model.graph.input)]
        for name in names:
            check_name(name, ends, "output or input", f"the {which} model")
    verification = verify_apart(before, after, grade="close", wanted=wanted)
    if not exact or not verification.equal or verification.is_same:
        return verification
    worst = verification.worst
    part = next((region for region in verification.regions if not region.is_same), None)
    tensor = worst.output if worst is not None else part.values[0] if part is not None else ""
    return replace(
        verification, status=DIFFERENT, tensor=tensor, why="other rounding, and --exact asks for the same values"
    )


def _verify_in_time(before: Side, after: Side, **how: Any) -> Verification:
    """Import the proof, and run it within a time limit. Runs in the other process."""
    from opshift.verification.combined import verify_sides  # heavy, and not wanted in the process that asks

    isolation.end_after(SECONDS)
    return verify_sides(before, after, **how)

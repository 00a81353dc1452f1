"""Report changes of element types (`--types`): which nodes changed, which kept their types, how far outputs move."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from opshift.jobs.outcome import Outcome, several
from opshift.passes.changes import TypesReport

if TYPE_CHECKING:
    from opshift.jobs.measuring import Deviation

_SHOWN = 8  # reasons, and outputs
_SMALL = 1e-2  # a detector that finds nothing: the error is a share of numbers that nobody looks at


def list_types(outcome: Outcome, *, verbose: bool) -> list[str]:
    """Write the lines about element types; `display.show` prints them."""
    types = outcome.types
    lines = [] if types is None else _report(types, ran=outcome.verification is not None, verbose=verbose)
    if types is not None and not _changes(types):
        return lines
    shown = outcome.deviations if verbose else outcome.deviations[:_SHOWN]
    real = "; --inputs FILE.npz with real data measures it" if types is not None and types.ranges == "drawn" else ""
    lines += [_spell_deviation(each, real) for each in shown]
    small = [each for each in outcome.deviations if 0 < each.peak < _SMALL and each.noise]
    if small and real:
        names = " and ".join(f'"{each.output}"' for each in small[:_SHOWN])
        peak = max(each.peak for each in small)
        lines.append(f"{names}: at most {peak:.2g} on random inputs; --inputs FILE.npz with real data tests more")
    if len(outcome.deviations) > len(shown):
        lines.append(f"and {len(outcome.deviations) - len(shown)} more outputs (-v lists them)")
    return lines


def _changes(held: TypesReport) -> bool:
    return bool(held.narrowed or held.casts or held.outside or held.dropped)


def _report(held: TypesReport, *, ran: bool, verbose: bool) -> list[str]:
    casts = f"{several(len(held.casts), 'cast')} between nodes, {len(held.outside)} at inputs and outputs"
    gone = f", {held.dropped} removed" if held.dropped else ""
    share = f", {held.share:.0%} of the float weights" if held.types != "int32" else ""
    lines = [f"{held.types}: {several(held.narrowed, 'node')}{share}; {casts}{gone}"] if _changes(held) else []
    lines += [f"{option} matches no node" for option in held.unmatched]
    reasons = Counter((each.op, each.why) for each in held.kept)
    if verbose:
        lines += [f'keeps its type: {each.op} "{each.node}": {each.why}' for each in held.kept]
    else:
        lines += [f"keeps its type: {count} x {op}: {why}" for (op, why), count in reasons.most_common(_SHOWN)]
        if len(reasons) > _SHOWN:
            lines.append(
                f"keeps its type: {sum(count for _, count in reasons.most_common()[_SHOWN:])} more; -v lists all"
            )
    if held.replaced and held.types == "int32":
        lines.append(f"{several(len(held.replaced), 'open Slice end')} became the largest or smallest int32")
    else:
        lines += [
            f'clipped in "{name}": numbers beyond the range became {by:.6g}' for name, by in held.replaced.items()
        ]
    if held.masks:
        names = ", ".join(f'"{name}"' for name in held.masks)
        lines.append(f"tested on rows that {names} masks wholly, partly and not at all")
    lines += [f"assumed: {each}" for each in held.assumed]
    if held.lost:
        count = sum(held.lost.values())
        lines.append(f"{several(count, 'small number')} in {several(len(held.lost), 'constant')} became 0")
    if held.ranges == "drawn":
        lines.append("ranges were measured on random inputs; --inputs FILE.npz measures real ones")
    elif _changes(held) and not held.ranges and held.kept and held.types != "int32" and not ran:
        lines.append("ranges were not measured, as no model ran")
    return lines


def _spell_deviation(seen: Deviation, more: str) -> str:
    if not math.isfinite(seen.error):
        return f'output "{seen.output}": {seen.why or "it cannot be compared"}'
    if not (seen.signal or seen.noise):
        return f'output "{seen.output}" was empty or 0 in each run, so it was not measured{more}'
    first = f", the largest element is the same in {seen.first:.1%} of rows" if seen.first is not None else ""
    noise = f", {seen.decibels:.0f} dB" if math.isfinite(seen.decibels) else ""
    moved = f'output "{seen.output}" moves by {seen.error:.2g}, allowed {seen.allowed:.2g}'
    return f"{moved}; at most {seen.largest:.2g}{noise}{first}"

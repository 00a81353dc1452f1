"""Two forms of a quantized model, from one quantized value to the next: where both start from the same integers, what
each makes of them is the same, but for a step where a number lies so close to the middle between two that rounding
decides. How close that is, the run shows by its own distance from float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from opshift.passes.model.messages import ModelProto, NodeProto
from opshift.passes.records import replace
from opshift.verification import random_operators
from opshift.verification.engines import EngineError, OnnxRuntime, Reference
from opshift.verification.judge import Pair, Verdict
from opshift.verification.judgement import STEP, Judgement
from opshift.verification.places.quantized import Place, places, quantizing, stations
from opshift.verification.side import Side
from opshift.verification.tolerances import Tolerances

_COARSE = "QLinearSoftmax"
"""What multiplies by the whole part of 1 / y_scale."""


def judged(pair: Pair, given: Mapping[str, Any]) -> Verdict | None:
    """What is found from one quantized value to the next, where the models have such and agree so."""
    if pair.cast:
        return None
    try:
        return judge(pair.before, pair.after, given, pair.grade, pair.asked)
    except EngineError:
        return None


def judge(
    before: Side, after: Side, given: Mapping[str, Any], grade: str, asked: Tolerances | None = None
) -> Verdict | None:
    """What is found where both forms start from each quantized value of the first; None where that says nothing.

    Raises:
        EngineError: one of them does not run so.
    """
    shared = stations(before.model, after.model)
    if not {before.engine, after.engine} <= {OnnxRuntime, Reference} or not shared:
        return None
    names = [value.name for value in before.model.graph.output]
    runs = _run(before, [station.before for station in shared], given)
    shared = [station for station in shared if _is_narrow(runs[station.before])]
    values = {station.before: runs[station.before] for station in shared}
    theirs = {station.after: station.of_second(runs[station.before]) for station in shared}
    fed = {**given, **theirs, **values}
    forms = [_started(before, values), _started(after, theirs)]
    again = forms[1][1]  # the second form's name for what it computes itself of each of these values
    found = [_run(side, [*made.values(), *_dividends(side.model)], fed) for side, made in forms]
    known = [places(side, made, fed, own) for (side, made), own in zip(forms, found, strict=True)]
    ties: dict[str, int] = {}
    for station in shared:
        both = list(zip(forms, known, (station.before, station.after), strict=True))
        coarse = any(_maker(side.model, made[name]).op_type == _COARSE for (side, made), _, name in both)
        value, own = values[station.before], found[1][again[station.after]]
        at = [of[name] for _, of, name in both if name in of]
        count = _apart(value, station.of_first(own, value.dtype), at, coarse=coarse)
        if count is None:
            return None
        ties[station.before] = count
    rest = [name for name in names if name not in values]
    judged: dict[str, Judgement] = {}
    if rest:
        first, second = (side for side, _ in forms)
        verdict = Pair(first, second, grade, asked).judge(fed, *([of[name] for name in rest] for of in found))
        if any(output.why for output in verdict.outputs):
            return None
        judged = {output.output: output for output in verdict.outputs}
    outputs = tuple(judged.get(name) or Judgement(name, STEP, ties=ties[name]) for name in names)
    return Verdict(outputs, {name: count for name, count in ties.items() if count})


def _run(side: Side, more: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a model, and other values of it, by name."""
    names = [value.name for value in side.model.graph.output]
    more = [name for name in dict.fromkeys(more) if name not in names]
    return dict(zip([*names, *more], side.open(more).run(given), strict=True))


def _dividends(model: ModelProto) -> list[str]:
    """What is quantized, as far as nodes make it."""
    made = {name for node in model.graph.node for name in node.output}
    return [node.input[0] for node in quantizing(model) if node.input[0] in made]


def _maker(model: ModelProto, name: str) -> NodeProto:
    return next(node for node in model.graph.node if name in node.output)


def _is_narrow(value: Any) -> bool:
    return bool(value.dtype.kind in "iu" and value.dtype.itemsize == 1)


def _started(side: Side, values: Mapping[str, Any]) -> tuple[Side, dict[str, str]]:
    """The form that takes these values, and under which names it makes them itself."""
    cut = random_operators.cut(side.model, values, [], "made")
    made: dict[str, str] = {}
    for old, new in zip(side.model.graph.node, cut.graph.node, strict=True):
        made |= {name: own for name, own in zip(old.output, new.output, strict=True) if name in values}
    return replace(side, model=cut), made


def _apart(one: Any, other: Any, known: Sequence[Place], *, coarse: bool) -> int | None:
    """How many elements are a step away; None if any is farther, or more are than rounding explains."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return None
    gap = np.abs(one.astype(np.int32) - other.astype(np.int32))
    moved = gap > 0
    if gap.max(initial=0) > 1 or (moved.any() and not known):
        return None
    if len(known) > 1 and known[0].apart(known[1]):
        return None
    for place in known:
        explained = place.lacking() <= (place.coarsely if coarse else place.moved)
        if not np.broadcast_to(explained, gap.shape)[moved].all():
            return None
    return int(np.count_nonzero(moved))

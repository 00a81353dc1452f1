"""What no inputs lead to, branches and numbers: watched in the ordinary runs, and run by force after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from opshift.passes.records import replace
from opshift.verification import interfaces
from opshift.verification.engines import ENGINES
from opshift.verification.feeding.asked import Asked
from opshift.verification.places import beyond, branches, unreached
from opshift.verification.side import Side
from opshift.verification.turns import Turns

if TYPE_CHECKING:
    from opshift.verification.feeding.inputs import Fed
    from opshift.verification.judge import Pair
    from opshift.verification.judgement import Verification

    Judged = Callable[[Verification, Pair, Any, Sequence[Any], Sequence[Any], str | None], Verification]


class Hidden:
    """The branches and the numbers of two forms that inputs may not lead to.

    Attributes:
        shown: the first form, which yields what is `watched`, too.
        watched: the names of that.
        more: the values of either form that may be asked for.
    """

    def __init__(self, before: Side, after: Side, wanted: Asked):
        self._wanted, ours = wanted, {before.engine, after.engine} <= set(ENGINES)
        self._ways = branches.branches(before.model) if ours else []
        looks = not before.is_large
        self._spots = unreached.spots(before.model, after.model, wanted.values) if ours and looks else []
        self._lines = unreached.on_lines(before.model, after.model, wanted.values) if ours and looks else []
        self._alone = unreached.alone(before.model, after.model, wanted.values) if ours and looks else []
        model, self._told = branches.watched(before.model, self._ways if looks else [])
        model, numbers = unreached.watched(model, self._spots)
        self.shown = replace(before, model=model)
        self.watched = [*self._told, *numbers]
        self._held: beyond.Held | None = None
        self.more: tuple[list[str], list[str]] = [], []
        some = [*self._spots, *self._lines, *self._alone]
        if some and not (wanted.sets or wanted.ranges or wanted.tolerances):
            self._held = beyond.Held(before, after)
            self.more = self._held.shown(some)

    def run(self, total: Verification, pair: Pair, fits: Sequence[Fed], turns: Turns, judged: Judged) -> Verification:
        """The verification with runs of what no inputs led to."""
        seen = [turns.seen(fed.outputs, interfaces.rounded(fed.given, pair.cast)) for fed in fits]
        if self._ways:
            runs = [
                (fed, branches.seen(self._told, values, pair.names, fed))
                for fed, values in zip(fits, seen, strict=True)
            ]
            total = self._everywhere(total, pair, runs, judged)
        if (self._spots or self._lines or self._alone) and total.equal:
            rows = [values[len(self._told) :] for values in seen]
            total = self._beyond(total, pair, fits, rows, turns, judged)
        if total.equal:  # of what forms were given by force, and yielded beside, nobody has asked
            total = replace(total, outputs=tuple(found for found in total.outputs if found.output in pair.names))
        return total

    def _everywhere(
        self, total: Verification, pair: Pair, runs: Sequence[branches.Ran], judged: Judged
    ) -> Verification:
        """Branches."""
        model, values, failed = pair.before.model, self._wanted.values, list[branches.Attempt]()
        untaken = branches.untaken(model, self._ways, runs, values)
        if pair.before.is_large:
            return replace(total, remarks=(*total.remarks, *branches.unknown(model, untaken, values)))
        for attempt in branches.attempts(pair, untaken, runs):
            if attempt.pair is None:
                failed.append(attempt)
            elif attempt.why:
                total = replace(total, status="different", why=attempt.why)
            else:
                repro = self._wanted.repro
                total = judged(total, attempt.pair, attempt.given, attempt.expected, attempt.actual, repro)
            if not total.equal:
                return replace(total, why=f"where {attempt.branch} is taken, {total.why}")
        return replace(total, remarks=(*total.remarks, *branches.told(pair, failed, runs, values)))

    def _beyond(
        self,
        total: Verification,
        pair: Pair,
        fits: Sequence[Fed],
        rows: Sequence[Sequence[Any]],
        turns: Turns,
        judged: Judged,
    ) -> Verification:
        """Numbers beyond lines; not where a user says what the forms are given, or how far apart they may be."""
        known = [unreached.see(self._spots, row) for row in rows]
        left = [spot for spot in self._spots if spot.is_open]
        wanted, failed = self._wanted, list[unreached.Spot]()
        if self._held is None:
            return replace(total, remarks=(*total.remarks, *unreached.told([*left, *self._lines, *self._alone])))
        given = interfaces.rounded(fits[0].given, pair.cast)
        for spots in (left if any(known) else [], self._lines, self._alone):
            for attempt in beyond.forced(self._held, pair, spots, given, turns) if spots else ():
                if attempt.pair is None:
                    failed += attempt.spots
                    continue
                total = judged(total, attempt.pair, attempt.given, attempt.expected, attempt.actual, wanted.repro)
                if not total.equal:
                    more = f", and {len(attempt.spots) - 1} more alike" if len(attempt.spots) > 1 else ""
                    return replace(total, why=f"where {attempt.spots[0].done}{more}, {total.why}")
        told = unreached.told(failed if any(known) else [*left, *failed])
        return replace(total, remarks=(*total.remarks, *told))

"""Judges two forms of a model by their twins in float64, where their own runs are not the same bit for bit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np

from opshift.passes.model.messages import NodeProto
from opshift.passes.records import dataclass, field, replace
from opshift.verification import bounds, interfaces, tolerances
from opshift.verification.bounds import Runs
from opshift.verification.compare import compare, flat, identical
from opshift.verification.engines import EngineError
from opshift.verification.judgement import BITS, DIRECT, NEAR, TOLERANCE, TWINS, Judgement
from opshift.verification.precision import narrowest
from opshift.verification.side import Side
from opshift.verification.tolerances import Tolerance, Tolerances
from opshift.verification.twins import decisions, labels, ties
from opshift.verification.twins.decisions import Watch
from opshift.verification.twins.twin import Twin, is_too_large, unrounded
from opshift.verification.twins.values import dtype_of

Array = Any
_TURNS = 4
"""How often ties are taken out of the way that were hidden behind others."""


@dataclass(frozen=True)
class Verdict:
    """What was found of each output, and what was decided otherwise by less than the bound, with how many elements."""

    outputs: tuple[Judgement, ...]
    ties: Mapping[str, int] = field(default_factory=dict)


class Pair:
    """Two forms of a model, and their twins where these are asked for; `asked` tolerances go before all bounds.

    `coarse` says how many times as far from a function the engine of the second form may be as onnxruntime is; `shown`
    how far apart, as a part of the scale, runs were whose twins were the same: runs as near as that show nothing new.
    `elsewhere` says that the runs of the second form are of another engine than its side has. What the twins of a pair
    `beside` have prepared runs the same calls of these.
    """

    def __init__(
        self,
        before: Side,
        after: Side,
        grade: str,
        asked: Tolerances | None = None,
        *,
        coarse: float = 1.0,
        shown: float | None = None,
        elsewhere: bool = False,
        beside: Pair | None = None,
    ):
        self.before, self.after, self.grade, self.asked = before, after, grade, asked or {}
        self._coarse, self._elsewhere, self._beside = coarse, elsewhere, beside
        self.cast = interfaces.casts(before.model, after.model)
        self.names = [value.name for value in before.model.graph.output]
        self.why = ""
        """Why there are no twins."""
        self.twins: tuple[Twin, Twin] | None = None
        self.shown = shown
        self._noise: dict[str, float] = {}
        """What approximations of functions do to outputs."""

    def told(self) -> str:
        """What is to be said of the twins: which nodes ran elsewhere, or why there are none."""
        if self.why:
            return f"no twins: {self.why}"
        twins = self.twins or ()
        elsewhere = sum((Counter(twin.calls.elsewhere) for twin in twins), Counter[str]())
        narrow = sum((Counter(twin.calls.narrow) for twin in twins), Counter[str]())
        said = [
            f"{sum(counts.values())} nodes {how} ({', '.join(f'{op} {count}' for op, count in sorted(counts.items()))})"
            for counts, how in ((elsewhere, "in numpy or onnx.reference"), (narrow, "as narrow as they are"))
            if counts
        ]
        return ", ".join(said)

    def judge(self, given: Mapping[str, Any], expected: Sequence[Any], actual: Sequence[Any]) -> Verdict:
        """Judge one run of either form on the same inputs."""
        rows = list(zip(self.names, expected, actual, strict=True))
        if all(self._is_asked(name) or identical(a, b) for name, a, b in rows):
            return Verdict(tuple(self._directly(*row) for row in rows))
        if self.shown is not None and all(self._is_asked(name) or self._is_near(a, b) for name, a, b in rows):
            return Verdict(
                tuple(
                    replace(found, judge=NEAR) if found.judge == DIRECT else found
                    for found in (self._directly(*row) for row in rows)
                )
            )
        self._noise = {}
        verdict = self._judged(given, expected, actual, None)
        narrow = self.twins is not None and any(twin.calls.unit for twin in self.twins)
        if verdict is not None and any(found.is_inaccurate or (narrow and found.why) for found in verdict.outputs):
            self._noise = self._noises(given)
            verdict = self._judged(given, expected, actual, None) if self._noise else verdict
        if verdict is None:
            return Verdict(tuple(self._directly(*row) for row in rows))
        counts: dict[str, int] = {}
        forced: dict[str, Any] = {}
        for _ in range(_TURNS):
            if not any(found.why for found in verdict.outputs):
                break
            found = self._ties(given, forced)
            known = forced.keys()
            counts |= {name: count for name, (_, count) in found.items()}
            forced = ties.alike(self, given, {**forced, **{name: value for name, (value, _) in found.items()}})
            if forced.keys() == known:
                break
            again = self._forced(given, forced)
            if again is None:
                break
            verdict = Verdict(
                tuple(
                    old if self._is_asked(old.output) else new
                    for old, new in zip(verdict.outputs, again.outputs, strict=True)
                )
            )
        counts = {name: counts[name] for name in forced}
        total = sum(counts.values())
        outputs = verdict.outputs
        if counts and self._elsewhere:
            outputs = self._as_run(given, rows, verdict)
        if counts:
            outputs = tuple(o if o.judge in (BITS, TOLERANCE) else replace(o, ties=total) for o in outputs)
        if self.grade == "close" and any(found.why for found in outputs):
            outputs = labels.tied(self.before.model, rows, outputs)
        if not counts and not any(found.why or found.judge == DIRECT for found in outputs):
            seen = [bounds.apart(a, b) for _, a, b in rows if bounds.is_float(a) and bounds.is_float(b)]
            self.shown = max([self.shown or 0.0, *(part for part in seen if part < math.inf)])
        return Verdict(outputs, counts)

    def _as_run(
        self, given: Mapping[str, Any], rows: Sequence[tuple[str, Any, Any]], verdict: Verdict
    ) -> tuple[Judgement, ...]:
        """Forms that are the same with the same decisions, of which an engine that decides by itself ran the second.

        Each element of its run has to be about as far from one of the runs that are known as the source is from its
        twin.
        """
        assert self.twins is not None
        feeds, unit = self.feeds(given), self.twins[0].calls.unit
        wide = [twin.run(own) for twin, own in zip(self.twins, feeds, strict=True)]
        known = zip(*wide, self.after.open().run(feeds[1]), strict=True)
        found = []
        for judged, (name, a, b), (x, *others) in zip(verdict.outputs, rows, known, strict=True):
            if not judged.why and not self._is_asked(name):
                judged = self._output(name, a, ties.beside(b, x, [a, *others]), x, x, unit)
                if judged.why:
                    judged = replace(judged, why=f"{judged.why}; decisions within rounding may be what parts them")
            found.append(judged)
        return tuple(found)

    def _is_near(self, a: Any, b: Any) -> bool:
        """Whether two runs are as near as those in which twins were the same, so that they show nothing new."""
        if identical(a, b):
            return True
        fine = all(bounds.half_unit(kind) <= bounds.SINGLE for kind in self._computed)
        floats = bounds.is_float(a) and bounds.is_float(b)
        return fine and floats and bounds.apart(a, b) <= bounds.near(a.dtype, self.shown or 0.0)

    def _judged(
        self, given: Mapping[str, Any], expected: Sequence[Any], actual: Sequence[Any], forced: Mapping[str, Any] | None
    ) -> Verdict | None:
        """None where there are no twins."""
        twins = self._opened()
        if twins is None:
            return None
        try:
            wide = [twin.run(feeds, forced=forced) for twin, feeds in zip(twins, self.feeds(given), strict=True)]
        except EngineError as error:
            self.why = str(error)
            return None
        unit = max(twin.calls.unit for twin in twins)
        rows = zip(self.names, expected, actual, wide[0], wide[1], strict=True)
        return Verdict(tuple(self._output(name, a, b, x, y, unit) for name, a, b, x, y in rows))

    def _noises(self, given: Mapping[str, Any]) -> dict[str, float]:
        """What approximations of functions do to outputs of either form."""
        assert self.twins is not None
        found: dict[str, float] = {}
        for twin, feeds in zip(self.twins, self.feeds(given), strict=True):
            try:
                rows = zip(self.names, twin.run(feeds), twin.run(feeds, noise=True), strict=True)
            except EngineError:
                continue
            for name, x, y in rows:
                if bounds.is_float(x) and bounds.is_float(y):
                    found[name] = max(found.get(name, 0.0), bounds.distance(x, y))
        return {name: self._coarse * moved for name, moved in found.items() if moved}

    def feeds(self, given: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        return given, interfaces.as_second(given, self.cast)

    def _opened(self) -> tuple[Twin, Twin] | None:
        if self.twins is None and not self.why:
            if self.before.network is not None or self.after.network is not None:
                self.why = "a network runs in OpenVINO"
                return None
            one, other = self.before, self.after
            if is_too_large(one.model) or is_too_large(other.model):
                self.why = "a weight is too large to be widened"
                return None
            loose = unrounded(one.model, other.model)
            known = self._beside and self._beside.twins
            first = Twin(one.model, one.folder, loose[0], known[0] if known else None)
            self.twins = first, Twin(other.model, other.folder, loose[1], first)
        return self.twins if not self.why else None

    def _output(self, name: str, a: Any, b: Any, x: Any, y: Any, unit: float) -> Judgement:
        if self._is_asked(name) or identical(a, b) or self._is_retyped(name, a, b):
            return self._directly(name, a, b)
        rows = [flat(value) for value in (a, b, x, y)]
        if any(row is None for row in rows) or len({len(row or ()) for row in rows}) > 1:
            return self._directly(name, a, b)
        found = Judgement(name, BITS)
        for one, other, wide, wide_other in zip(*rows, strict=True):
            found = found.worse(self.array(name, one, other, wide, wide_other, unit))
            if found.why:
                break
        return found

    def array(self, name: str, a: Array, b: Array, x: Array, y: Array, unit: float) -> Judgement:
        floats = bounds.is_float(a) and bounds.is_float(b)
        if not floats:
            found = compare(a, b, self.grade)
            if not found.why and x is not None and y is not None and not compare(x, y, self.grade).equal:
                return Judgement(name, TWINS, why=f"{compare(x, y, self.grade).why}, in float64")
            return Judgement(name, TWINS, why=found.why)
        if a.shape != b.shape:
            return Judgement(name, DIRECT, why=compare(a, b, self.grade).why)
        if bounds.is_float8(a) or bounds.is_float8(b):
            return self._directly(name, a, b)
        runs, rounded = Runs(a, b, x, y), self._stored[0] != self._stored[1]
        narrow = max(self._computed, key=bounds.half_unit)
        noise = self._noise.get(name, 0.0)
        judged = bounds.judge(name, runs, self.grade, unit=unit, narrow=narrow, rounded=rounded, noise=noise)
        return judged if judged is not None else self._directly(name, a, b)

    @cached_property
    def _computed(self) -> tuple[np.dtype[Any], ...]:
        return tuple(dtype_of(narrowest(side.model, computed=True)) for side in (self.before, self.after))

    @cached_property
    def _stored(self) -> tuple[np.dtype[Any], ...]:
        return tuple(dtype_of(narrowest(side.model, computed=False)) for side in (self.before, self.after))

    def parted(self, a: Any, b: Any, name: str = "") -> str:
        """What differs between two values that are compared with each other; empty where nothing does."""
        return self._directly(name, a, b).why

    def _is_retyped(self, name: str, a: Any, b: Any) -> bool:
        """Whether an output is of another type, which no cast of the interface explains."""
        return name in self.names and name not in self.cast and getattr(a, "dtype", None) != getattr(b, "dtype", None)

    def _is_asked(self, name: str) -> bool:
        return self.tolerance(name) is not None

    def tolerance(self, name: str) -> Tolerance | None:
        """What the user allows an output; nothing for what is none."""
        return self.asked.get(name, self.asked.get("")) if name in self.names else None

    def _directly(self, name: str, a: Any, b: Any) -> Judgement:
        if self._is_retyped(name, a, b):
            return Judgement(name, DIRECT, why=compare(a, b).why)
        asked = self.tolerance(name)
        if asked is not None:
            return tolerances.judge(name, a, b, asked)
        if identical(a, b):
            return Judgement(name, BITS)
        if bounds.is_float(a) and bounds.is_float(b) and a.shape == b.shape:
            return bounds.direct(name, a, b, self.grade)
        if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            found = Judgement(name, BITS)
            for one, other in zip(a, b, strict=True):
                found = found.worse(self._directly(name, one, other))
            return found
        return Judgement(name, DIRECT, why=compare(a, b, self.grade).why)

    # --- what decides ---------------------------------------------------------------------------------------

    def _ties(self, given: Mapping[str, Any], forced: Mapping[str, Any]) -> dict[str, tuple[Any, int]]:
        """What is decided otherwise by less than the bound: the value of the source, and how many elements differ."""
        twins = self._opened()
        assert twins is not None
        made = {name for node in self.after.model.graph.node for name in node.output if name}
        nodes = {
            name: node
            for node in self.before.model.graph.node
            if decisions.decides(node) and len(node.output) > decisions.output(node)
            for name in [node.output[decisions.output(node)]]
            if name and name in made and name not in forced
        }
        if not nodes:
            return {}
        outputs = {name for node in self.before.model.graph.node for name in node.output}
        read = {name for node in nodes.values() for name in node.input if name in outputs}
        shared = read & made
        try:
            one, other = Watch(nodes.keys(), read), Watch(made & nodes.keys(), shared)
            feeds = self.feeds(given)
            twins[0].run(feeds[0], forced=forced, watch=one)
            twins[1].run(feeds[1], forced=forced, watch=other)
            narrow = (
                ties.observed(self.before, feeds[0], forced, [*nodes, *read], "before"),
                ties.observed(self.after, feeds[1], forced, [*nodes, *shared], "after"),
            )
        except EngineError:
            return {}
        found: dict[str, tuple[Any, int]] = {}
        for name, node in nodes.items():
            if name not in one.values or name not in other.values or name not in one.margins:
                continue
            flips = decisions.differing(narrow[0][name], narrow[1][name], one.values[name], other.values[name])
            if flips is None or not flips.any():
                continue
            if self._excused(node, flips, one, other, narrow):
                found[name] = narrow[0][name], int(np.count_nonzero(flips))
        return found

    def _excused(
        self,
        node: NodeProto,
        flips: Array,
        one: Watch,
        other: Watch,
        narrow: Sequence[Mapping[str, Any]],
    ) -> bool:
        """Whether all that was decided otherwise lay nearer to the line than rounding moves it, and moved at all."""
        allowed, moved = 0.0, False
        for name in node.input:
            wide = one.values.get(name)
            if wide is None or name not in narrow[0] or not bounds.is_float(wide):
                continue
            own = np.asarray(narrow[0][name])
            if own.shape != wide.shape:
                return False
            finite = np.isfinite(wide) & np.isfinite(own.astype(np.float64))
            with np.errstate(all="ignore"):
                near = np.abs(own.astype(np.float64) - wide)[finite].max(initial=0.0)
            u, largest = bounds.half_unit(own.dtype), float(np.abs(wide[finite]).max(initial=0.0))
            room = bounds.TIMES[self.grade] * near + 8 * u * largest
            allowed += float(max(near, min(room, bounds.cap(own.dtype, self.grade) * largest)))
            moved = moved or name not in narrow[1] or own.tobytes() != np.asarray(narrow[1][name]).tobytes()
            moved = moved or name not in other.values or wide.tobytes() != other.values[name].tobytes()
        for margins in (watch.margins.get(decisions.decided(node), 0.0) for watch in (one, other)):
            lacking = margins[flips] if np.ndim(margins) and np.shape(margins) == np.shape(flips) else margins
            moved = moved and bool((np.asarray(lacking) <= allowed).all())
        return moved

    def _forced(self, given: Mapping[str, Any], forced: Mapping[str, Any]) -> Verdict | None:
        """Both forms judged with the same decisions."""
        try:
            sides = zip((self.before, self.after), self.feeds(given), ("before", "after"), strict=True)
            runs = [ties.cut(side, forced, (), mark).open().run({**feeds, **forced}) for side, feeds, mark in sides]
        except EngineError:
            return None
        rest = [value.name for value in self.before.model.graph.output if value.name not in forced]
        values = [dict(zip(rest, run, strict=False)) | dict(forced) for run in runs]
        expected, actual = ([row[name] for name in self.names] for row in values)
        return self._judged(given, expected, actual, forced)

    # --- where ----------------------------------------------------------------------------------------------

    def locate(self, given: Mapping[str, Any]) -> tuple[str, str] | None:
        """The first value in the order of the graph that both models have and that differs, as it is or in float64."""
        known = set(self.names)
        made = {name for node in self.after.model.graph.node for name in node.output if name}
        shared = [n for node in self.before.model.graph.node for n in node.output if n in made and n not in known]
        feeds = self.feeds(given)
        try:
            sides = zip((self.before, self.after), feeds, strict=True)
            values = [ties.observed(side, own, {}, shared, "") for side, own in sides]
        except EngineError:
            return None
        wide = [Watch(set(), set(shared)) for _ in range(2)]
        with suppress(EngineError):
            for twin, own, watch in zip(self._opened() or (), feeds, wide, strict=False):
                twin.run(own, watch=watch)
        for name in shared:
            a, b = (row[name] for row in values)
            found = self._directly(name, a, b)
            if found.why:
                return name, found.why
            x, y = (watch.values.get(name) for watch in wide)
            if bounds.is_float(x) and bounds.is_float(y) and bounds.is_float(a):
                judged = self.array(name, a, b, x, y, 0.0)
                if judged.why:
                    return name, judged.why
        return None

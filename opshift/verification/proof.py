"""Prove regions one by one: run both sides on captured and on drawn values, and compare.

Identical nodes compute the same. If each region also computes the same in both models from the first model's values,
then both models have the same outputs: follow the nodes from the inputs on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from time import process_time  # what else the machine does decides nothing
from typing import Any

from onnx import numpy_helper

from opshift.passes import progress
from opshift.passes.analysis.scope import Scope, open_main_graph
from opshift.passes.model import imports, schemas, tensors
from opshift.passes.model.messages import ModelProto, TensorProto, TypeProto, normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.records import dataclass, field, replace
from opshift.verification import inner, random_operators
from opshift.verification.bounds import (
    SAME,
    Closeness,
    Runs,
    compare,
    identical,
    is_all_nan,
    is_float,
    is_only_one_infinite,
    judge,
    move_by_rounding,
    move_weights,
)
from opshift.verification.drawing import FAR, ORDINARY, ROWS, SPECIAL, WHOLE_TABLES, Draw, draw
from opshift.verification.engines import (
    ENGINES,
    INVALID,
    TOO_LONG,
    EngineError,
    OnnxRuntime,
    Reference,
    Session,
    call_within,
    is_rough,
)
from opshift.verification.feeding import responding
from opshift.verification.labels import explain_labels, find_scores
from opshift.verification.parts import Pair, make_pair, type_of, with_outputs
from opshift.verification.precision import as_written
from opshift.verification.regions import Body, Comparison, Region, names_of
from opshift.verification.side import Side
from opshift.verification.trees import count_trees, sum_coefficients
from opshift.verification.verdict import DIFFERENT, EQUAL, UNCOVERED, Finding

Feeds = Mapping[str, Any]

CAPTURED = "captured values"
_LEAST = 9
"""Each kind is run on at least so many sets of drawn values, whatever time it takes."""
_BATCH = 1 << 29
"""At most so many bytes of captured values are held in memory."""
_CAPTURED = 2
"""The values of so many runs of the first model are captured; the runs differ in every dynamic size."""
_ALIKE = 8
"""So many places of one kind are run for each combination of shapes, if they have no weights of their own."""
_SLOW = 2.0
"""If a run of both parts takes more seconds, like places are skipped, and drawn values stop at the time limit."""
_PATIENCE, HASTE = 20.0, 2.0
"""The time limits in seconds for the first run of a part in onnx.reference, which is slow, and for later runs."""
_BLIND = frozenset(
    ["Softmax", "LogSoftmax", "Hardmax", "Upsample", "RoiAlign", "BatchNormalization", "Dropout", "Scan"]
)
"""Operators that onnx.reference always runs by their newest version."""
_NAN = "its results were NaN in each run"
_ROUNDS = 3
"""So often names that mean different values are dropped, and the regions around them merged and compared again."""
_WIDENED = 64
"""A region is widened by at most so many steps."""


@dataclass(frozen=True)
class Failure:
    """A region whose sides differ.

    Attributes:
        region: the region.
        label: the inputs on which its sides differ.
        why: how they differ.
        nodes, made: the nodes of the first and of the second model, by name or first output.
        op: the operator that computes the value in the second model.
        weights: the constants that have the same name in both models, but other values.
        values: the inputs of both sides, by name.
        is_other: whether the results are unrelated, on captured values.
        is_taken: False if it lies in a branch that no run took.
        tensor: the first of the region's outputs that differs.
    """

    region: Region
    label: str
    why: str
    nodes: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    op: str = ""
    weights: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    is_other: bool = False
    is_taken: bool = True
    tensor: str = ""


@dataclass(frozen=True)
class Manner:
    """Options for comparing regions.

    Attributes:
        grade: the grade of the changes: `exact` or `close`.
        special: whether NaN and infinities have to agree, as after exact changes.
        seconds: the time limit for all drawn values.
        seed: the seed of drawn values.
        ranges: the user's ranges (`--val-range`), by input; the empty name stands for all inputs.
        promise: whether opshift made the second model; then it has to be as exact for small numbers as the first.
    """

    grade: str = "exact"
    special: bool = False
    seconds: float = 2.0
    seed: int = 0
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    promise: bool = True


@dataclass
class _Kind:
    """Regions that differ only in names, weights and types."""

    pair: Pair
    places: list[Pair] = field(default_factory=list)
    shapes: dict[Any, int] = field(default_factory=dict)
    sessions: dict[Any, Session | None] = field(default_factory=dict)
    base: dict[str, Any] | None = None
    closeness: Closeness = SAME
    runs: int = 0
    captured: bool = False
    failures: list[Failure] = field(default_factory=list)
    why: str = ""
    broken: str = ""  # how onnx.reference fails on the second side, which it may do on a valid model
    engines: set[str] = field(default_factory=set)
    is_late: bool = False
    slowest: float = 0.0
    is_lacking: bool = False


class Prover:
    """Proves the regions of two models.

    Args:
        before, after: the models.
        runs: inputs of the first model, of different sizes; none where it cannot be run.
        manner: how regions are judged.
        shown: the first model without what no engine runs, whose values are captured.
        depth: of bodies in bodies.
    """

    def __init__(
        self,
        before: Body,
        after: Body,
        runs: Sequence[Feeds],
        manner: Manner,
        depth: int = 0,
        shown: Side | None = None,
    ):
        self._bodies = (before, after)
        self._runs = _of_different_sizes(runs)
        self._manner = manner
        self._depth = depth
        self._shown = shown or before.side
        self._read: list[Any] = [None, None]  # the weights of the pair that was run last
        self.remarks: dict[str, dict[str, None]] = {}
        """Remarks, which do not decide the verdict, with the names of the values that they are about."""
        self.failures: list[Failure] = []
        """The regions that differ, in the order of the second model."""

    def prove(self, rejected: Collection[str] = (), *, drawn: bool = True) -> list[Finding]:
        """Compare each kind of region, and add those that differ to `failures`.

        Args:
            rejected: names that mean different values in the two models.
            drawn: whether drawn values are tried, too, and the bodies of If, Loop, Scan and functions.
        """
        self._comparison = Comparison(*self._bodies, rejected)
        self.failures = []
        regions = self._comparison.regions()
        kinds: dict[bytes, _Kind] = {}
        pairs = []
        for region in regions:
            pair = make_pair(*self._bodies, region)
            kind = kinds.setdefault(pair.kind, _Kind(pair))
            kind.places.append(pair)
            pairs.append((pair, kind))
        if not pairs:
            return []
        progress.tell("run changed parts", 0, len(kinds))
        for number, run in enumerate(self._runs):
            for (pair, kind), values in zip(pairs, self._capture_inputs([pair for pair, _ in pairs], run), strict=True):
                if values is not None:
                    self._run_place(pair, kind, values, number)
        inside = self._draw_for_all(pairs, list(kinds.values())) if drawn else []
        for kind in kinds.values():
            if kind.is_late and kind.runs:
                self._remark(kind, f"not tested on some inputs: onnx.reference takes longer than {HASTE:g} s for each")
        findings = [self._make_finding(kind) for kind in kinds.values()]
        failures = [failure for kind in kinds.values() if not _is_blind(kind) for failure in kind.failures]
        order = {region.outputs: place for place, region in enumerate(regions)}
        self.failures = sorted([*failures, *self.failures], key=lambda one: order[one.region.outputs])
        return [*findings, *inside]

    def give_up_names(self, findings: list[Finding]) -> list[Finding]:
        """If values of one name differ, merge the regions around that name and compare again; at last without any name.

        Only for models that opshift did not make, where equal names may be chance.
        """
        rejected, outputs = set[str](), self._bodies[1].outputs
        for turn in range(_ROUNDS):
            differing = {name for failure in self.failures if failure.is_other for name in failure.region.outputs}
            if not differing:
                break
            is_inside = turn + 1 < _ROUNDS and not differing.issubset(outputs)
            rejected |= (differing if is_inside else self._comparison.landmarks).difference(outputs)
            findings = self.prove(rejected, drawn=False)
        return findings if self.failures else self.prove(rejected)

    def _draw_for_all(self, pairs: Sequence[tuple[Pair, _Kind]], kinds: Sequence[_Kind]) -> list[Finding]:
        """Try drawn values on each kind and on bodies inside; returns the findings of bodies.

        Runs after the captured values.
        """
        inside, doubts, proved = list[Finding](), dict[tuple[str, ...], list[Failure]](), set[tuple[str, ...]]()
        for pair, _ in pairs:
            inner_findings, differing, is_all = self._prove_inner(pair.region)
            inside += inner_findings
            doubts[pair.region.outputs] = differing
            if is_all and not differing:
                proved.add(pair.region.outputs)
        drawable = [kind for kind in kinds if not kind.failures and kind.pair.region.outputs not in proved]
        until = process_time() + self._manner.seconds
        for number, kind in enumerate(drawable):
            progress.tell("try drawn values on changed parts", number + 1, len(drawable))
            share = max(0.05, (until - process_time()) / (len(drawable) - number))
            self._draw_for(kind, share, doubts[kind.pair.region.outputs])
        return inside

    # --- bodies ---------------------------------------------------------------------------------------------

    def _prove_inner(self, region: Region) -> tuple[list[Finding], list[Failure], bool]:
        """Prove the bodies of If, Loop, Scan and functions in a region.

        Returns the findings; the failures on values that the model may never have; and whether the bodies are the only
        nodes of the region.
        """
        findings, doubts, count = list[Finding](), list[Failure](), 0
        if self._depth >= _DEEPEST:
            return findings, doubts, False
        for pair in inner.pair_bodies(*self._bodies, region, self._comparison):
            if pair is None:
                count = -1
                break
            count += 1
            runs = [pair.feeds(next(self._capture([pair.reads], run))) for run in self._runs]
            sides = [
                inner.with_types(side, runs[0] if runs else {}, self._scope.type) for side in (pair.before, pair.after)
            ]
            whole = [run for run in runs if all(value.name in run for value in sides[0].model.graph.input)]
            prover = Prover(Body(sides[0]), Body(sides[1]), whole, self._manner, self._depth + 1)
            is_run = pair.node.op_type != "If"
            proved = prover.prove(drawn=self._manner.promise)
            findings += [
                replace(
                    one,
                    values=region.outputs,
                    why=_add_place(pair.label, one.why),
                    is_reached=is_run and one.is_reached,
                )
                for one in (proved if self._manner.promise else prover.give_up_names(proved))
            ]
            for one in prover.failures:
                outer = self._describe_failure(region, one.label, Closeness(_add_place(pair.label, one.why)), {})
                outer = replace(outer, is_taken=one.is_taken)
                (self.failures if is_run and one.label == CAPTURED else doubts).append(outer)
            for said, names in prover.remarks.items():
                self.remarks.setdefault(said, {}).update(names)
        return findings, doubts, count > 0 and len(region.before) == len(region.after) == 1

    def _remark(self, kind: _Kind, said: str) -> None:
        """Add a remark on a kind of region. Runs where something was not tested, or only partly."""
        self.remarks.setdefault(said, {})[kind.pair.region.outputs[0]] = None

    @cached_property
    def _scope(self) -> Scope:
        """Infer types of the first model's values, for those that no run shows."""
        side = self._bodies[0].side
        return open_main_graph(side.model, side.folder)

    # --- captured values ------------------------------------------------------------------------------------

    def _capture_inputs(self, pairs: Sequence[Pair], run: Feeds) -> Iterator[dict[str, Any] | None]:
        """Yield for each region its inputs in a run of the first model; None where one of them is not known."""
        for pair, values in zip(pairs, self._capture([pair.region.inputs for pair in pairs], run), strict=True):
            is_known = all(name in values for name in pair.region.inputs)
            yield {f"~x{k}": values[name] for k, name in enumerate(pair.region.inputs)} if is_known else None

    def _capture(self, wanted: Sequence[Sequence[str]], run: Feeds) -> Iterator[dict[str, Any]]:
        """Yield values of the first model in a run for each group of names, as far as it has them.

        Many groups are captured at once, as long as their values are not too large together.
        """
        body = self._bodies[0]
        inner = {name for names in wanted for name in names if name not in run and name in body.pieces.makers}
        session, known = _open_capture(self._shown, sorted(inner))
        start, count = 0, 64
        while start < len(wanted):
            batch = wanted[start : start + count]
            names = sorted(known & {name for group in batch for name in group})
            values = dict(run)
            if names and session is not None:
                try:
                    values.update(zip(names, session.run(run, names), strict=True))  # type: ignore[call-arg]
                except EngineError:
                    session = None
            for group in batch:
                constants = {name: body.tensor(name) for name in group if name in body.constants and name not in values}
                values.update((name, numpy_helper.to_array(tensor)) for name, tensor in constants.items())
                yield {name: values[name] for name in group if name in values}
            start += len(batch)
            size = sum(getattr(values[name], "nbytes", 0) for name in names if name in values)
            count = max(1, min(4096, _BATCH * len(batch) // (size + 1)))

    def _run_place(self, pair: Pair, kind: _Kind, values: dict[str, Any], number: int) -> None:
        """Run both sides on captured values, unless enough like places were run."""
        shapes = tuple((name, str(getattr(v, "dtype", "")), getattr(v, "shape", None)) for name, v in values.items())
        kind.shapes[shapes] = kind.shapes.get(shapes, 0) + 1
        is_slow = kind.captured and kind.slowest > _SLOW
        if (kind.shapes[shapes] > _ALIKE or is_slow) and not pair.has_weights:
            return
        if is_slow and number:  # weights that were not run yet may differ
            return
        if kind.base is None or _size(values) < _size(kind.base):
            kind.base, kind.pair = dict(values), pair
        closeness = self._judge_on(pair, kind, values, label=CAPTURED)
        if closeness is not None:
            kind.captured = True
            if closeness.why:
                kind.failures.append(self._describe_failure(pair.region, CAPTURED, closeness, values))

    # --- drawn values ---------------------------------------------------------------------------------------

    def _draw_for(self, kind: _Kind, seconds: float, doubts: Sequence[Failure]) -> None:
        """Run both sides on drawn values. If only these differ, widen the region and run again.

        `doubts` are differences of bodies, on values that they may never be given.
        """
        base = kind.base if kind.base is not None else self._draw_inferred(kind.pair)
        if base is None:
            kind.why = kind.why or "the types or sizes of its inputs are unknown"
            return
        known = kind.closeness
        failure = self._first_difference(kind.pair, kind, base, seconds)
        for other in _of_other_ranks(base) if not kind.runs else ():
            failure = self._first_difference(kind.pair, kind, other, seconds)
            if kind.runs:
                break
        if failure is not None and kind.base is None and failure[1].why.startswith("shape"):
            kind.why, kind.runs = "the sizes of its inputs are unknown", 0
            return
        if failure is None:
            kind.failures += doubts
            return
        region = kind.pair.region
        is_length = failure[0] == ROWS and self._varying_values.isdisjoint(region.inputs)
        wider = self._widen(region) if failure[0] != WHOLE_TABLES and not is_length else None
        if wider is not None and self._runs:
            again = _Kind(make_pair(*self._bodies, wider))
            values = next(self._capture_inputs([again.pair], self._runs[0]))
            if values is not None:
                there = self._first_difference(again.pair, again, values, seconds, least=3 * _LEAST)
                if there is None and again.runs:
                    untaken = [replace(doubt, is_taken=False) for doubt in doubts if doubt.label == CAPTURED]
                    if untaken:  # a branch differs on what it would have been given
                        kind.failures += untaken
                        return
                    self._remark(kind, "equal only on numbers that the nodes before it can compute")
                    kind.closeness = known.worse(again.closeness)
                    return
                if there is None and again.why == _NAN:
                    kind.why, kind.runs = _NAN, 0
                    return
                if there is not None:
                    region, failure = wider, there
        kind.failures.append(self._describe_failure(region, *failure))

    def _first_difference(
        self, pair: Pair, kind: _Kind, base: dict[str, Any], seconds: float, least: int = _LEAST
    ) -> tuple[str, Closeness, Feeds] | None:
        """Find the first drawn values on which the sides differ; returns their label, what differs, and the values."""
        until, done = process_time() + seconds, 0
        for drawn in self._draws(pair, kind, base):
            if process_time() > until and (done >= least or kind.slowest > _SLOW):
                break
            if drawn.how == SPECIAL and len(kind.engines) > 1:
                continue
            closeness = self._judge_on(pair, kind, drawn.feeds, label=drawn.label, how=drawn.how)
            if closeness is not None:
                done += 1
                if closeness.why:
                    return drawn.label, closeness, drawn.feeds
        return None

    def _draws(self, pair: Pair, kind: _Kind, base: dict[str, Any]) -> Iterator[Draw]:
        """Draw values for a region: varied where inputs vary in runs, within the ranges that the user gave."""
        free = [
            f"~x{k}"
            for k, name in enumerate(pair.region.inputs)
            if name not in self._unvarying and hasattr(base.get(f"~x{k}"), "dtype")
        ]

        def watch(which: int, names: Sequence[str], feeds: Feeds) -> Mapping[str, Any]:
            """Run one side on drawn values, to see where inner values lie."""
            model = with_outputs(pair.with_types(which, _types(pair, which, feeds)), names)
            session = _open_part(model)
            given = {**feeds, **self._weights(pair, which)}
            by_name = dict(zip([v.name for v in model.graph.output], session.run(given), strict=True))
            return {name: by_name[name] for name in names}

        weights = [self._weights(pair, which) for which in range(2)]
        parts, resized = [pair.before.model, pair.after.model], _find_resized(kind)
        special = self._manner.special and self._manner.grade == "exact"
        for drawn in draw(parts, base, weights, free, watch, self._manner.seed, resized, special=special):
            yield self._within_ranges(pair, drawn)

    def _within_ranges(self, pair: Pair, drawn: Draw) -> Draw:
        """Clip drawn model inputs to the user's ranges. Runs on each draw."""
        ranges, given = self._manner.ranges, self._bodies[0].pieces.given
        if not ranges:
            return drawn
        feeds = dict(drawn.feeds)
        for k, name in enumerate(pair.region.inputs):
            bounds = ranges.get(name, ranges.get(""))
            if name in given and bounds is not None and hasattr(feeds[f"~x{k}"], "clip"):
                feeds[f"~x{k}"] = feeds[f"~x{k}"].clip(*bounds).astype(feeds[f"~x{k}"].dtype)
        return replace(drawn, feeds=feeds)

    @cached_property
    def _varying_values(self) -> set[str]:
        """List values that depend on elements of inputs, not on sizes alone, in the first model."""
        return responding.hanging(self._bodies[0].side.model)

    @cached_property
    def _unvarying(self) -> set[str]:
        """List values that depend on constants only, in either model. Such inputs are not varied."""
        before, after = self._bodies
        return before.unvarying | after.unvarying | (set(before.pieces.given) ^ set(after.pieces.given))

    def _draw_inferred(self, pair: Pair) -> dict[str, Any] | None:
        """Draw values of inferred types and sizes, for a region that no run reached."""
        import numpy as np
        from onnx import helper

        rng = np.random.default_rng(self._manner.seed)
        drawn: dict[str, Any] = {}
        for k, name in enumerate(pair.region.inputs):
            value_type = self._scope.type(name) or TypeProto()
            if value_type.WhichOneof("value") not in (None, "tensor_type"):
                return None
            dims = value_type.tensor_type.shape.dim
            shape = [dim.dim_value if dim.HasField("dim_value") else 2 + axis for axis, dim in enumerate(dims)]
            shape = (
                shape if value_type.tensor_type.HasField("shape") else [2, 3]
            )  # other ranks are tried where it fails
            if math.prod(shape) > _BATCH // 16:
                return None
            dtype = helper.tensor_dtype_to_np_dtype(value_type.tensor_type.elem_type or TensorProto.FLOAT)
            if dtype.kind == "O":
                return None
            value = rng.normal(size=shape) if dtype.kind in "fV" else rng.integers(0, 2, shape)
            drawn[f"~x{k}"] = value.astype(dtype)
        return drawn

    def _widen(self, region: Region) -> Region | None:
        """Extend a region back to values that can be drawn freely, so that drawn values are possible ones.

        Runs if only drawn values differ. None if the region begins with such values already.
        """
        pieces = self._bodies[0].pieces
        ends = [name for name in region.inputs if name in pieces.makers]
        first, given = set(ends), [name for name in region.inputs if name not in pieces.makers]
        unvarying = self._unvarying & self._comparison.landmarks
        for _ in range(_WIDENED):
            bound = [name for name in ends if not self._is_free(name, [*ends, *given])]
            if not bound:  # the second model may pass an end by, and begin with what that hangs on
                inputs = self._comparison.region(region.outputs, {*ends, *unvarying}).inputs
                beyond = {*inputs} - {*ends, *given, *unvarying}
                bound = [name for name in ends if not beyond.isdisjoint(self._find_above(name))] if beyond else []
            if not bound:
                break
            for name in bound:
                ends.remove(name)
                reads = pieces.reads(pieces.makers[name])
                ends += [r for r in reads if r in pieces.makers and r not in ends and r not in self._unvarying]
            ends = [name for name in ends if name in self._comparison.landmarks]
        if set(ends) == first:
            return None
        return self._comparison.region(region.outputs, {*ends, *unvarying})

    def _is_free(self, name: str, ends: Sequence[str]) -> bool:
        """Whether a value can take any number, whatever the region's other inputs are. Asked while a region is
        widened.
        """
        pieces = self._bodies[0].pieces
        node = pieces.nodes[pieces.makers[name]]
        while node.op_type in _MOVING and node.input[0] in pieces.makers:
            node = pieces.nodes[pieces.makers[node.input[0]]]
        if node.op_type in _MOVING and node.input[0] in self._bodies[0].pieces.given and not self._manner.ranges:
            return list(ends) == [name]  # another may be moved from the same input
        ops = _ANY_CLASSICAL if normalize_domain(node.domain) == "ai.onnx.ml" else _ANY
        if self._manner.ranges or (node.domain and ops is _ANY) or node.op_type not in ops:
            return False
        if len(set(node.input)) < len(node.input):
            return False
        return self._find_above(name).isdisjoint(ends)

    def _find_above(self, name: str) -> set[str]:
        """List the values that a value is computed from, in the first model."""
        pieces = self._bodies[0].pieces
        inside, reached = pieces.between([name], ())
        return {*reached, *(output for index in inside for output in pieces.nodes[index].output)} - {name}

    def _describe_failure(self, region: Region, label: str, found: Closeness, values: Feeds) -> Failure:
        """Describe a region whose sides differ: its nodes, the changed weights, and the values.

        Runs for each difference.
        """
        before, after = self._bodies
        last = after.pieces.nodes[region.after[-1]].op_type if region.after else ""
        return Failure(
            region,
            label,
            found.why,
            names_of(before, region.before),
            names_of(after, region.after),
            last,
            self._changed_weights(region),
            {name: values[f"~x{k}"] for k, name in enumerate(region.inputs) if f"~x{k}" in values},
            found.is_other and label == CAPTURED,
            tensor=region.outputs[found.place],
        )

    def _changed_weights(self, region: Region) -> tuple[str, ...]:
        """List constants of a region that have other values in the second model. Part of the report of a failure."""
        one, other = (
            {name for index in nodes for name in body.pieces.reads(index) if name in body.constants}
            for body, nodes in zip(self._bodies, (region.before, region.after), strict=True)
        )
        return tuple(sorted(name for name in one & other if not self._comparison.is_shared(name)))

    # --- running --------------------------------------------------------------------------------------------

    def _judge_on(
        self, pair: Pair, kind: _Kind, values: Mapping[str, Any], *, label: str, how: str = ORDINARY
    ) -> Closeness | None:
        """Run both sides on values, and compare; None if the first side does not run on them, or yields only NaN."""
        started = process_time()
        try:
            return self._compare_on(pair, kind, values, label=label, how=how)
        finally:
            kind.slowest = max(kind.slowest, process_time() - started)

    def _compare_on(
        self, pair: Pair, kind: _Kind, values: Mapping[str, Any], *, label: str, how: str
    ) -> Closeness | None:
        """Run both sides on values, and compare outputs, first by equality, then by what a rounding does."""
        if _has_undefined_scale(pair, values):
            return None
        weights = [self._weights(pair, which) for which in range(2)]
        feeds = [{**values, **constants} for constants in weights]
        try:
            expected = self._run(pair, kind, 0, feeds[0])
        except EngineError as error:
            kind.why = kind.why or str(error)
            kind.is_late |= str(error).startswith(TOO_LONG)
            return None
        try:
            actual = self._run(pair, kind, 1, feeds[1])
        except EngineError as error:
            second = kind.sessions[1, _signature(feeds[1])]
            is_absent = second is None and not INVALID.search(str(error))
            is_elsewhere = isinstance(second, Reference) and kind.engines == {OnnxRuntime.engine}
            if str(error).startswith(TOO_LONG) or is_absent or is_elsewhere:  # which do not run all that is valid
                kind.why = kind.why or str(error)
                kind.is_late |= str(error).startswith(TOO_LONG)
                return None
            if isinstance(second, Reference):
                kind.broken = kind.broken or str(error)
                return None
            failed = Closeness(f"the second model fails: {error}", is_same=False, is_other=True)
            return failed if how == ORDINARY else None
        if is_all_nan(expected) and is_all_nan(actual):
            kind.why = kind.why or _NAN
            return None
        kind.runs += 1
        if _draws_numbers(pair):
            return self._judge_samples(pair, kind, feeds)
        if how == FAR:
            actual = list(map(_where_finite, expected, actual))
        worst = SAME
        if all(map(identical, expected, actual)):
            return worst
        moved: list[Sequence[Any]] | None = None
        step = _quantization_step(pair, feeds)
        grade = self._grade(kind)
        names = [value.name for value in pair.before.model.graph.output]
        scores = find_scores(pair.before.model) if grade == "close" else {}
        nodes = pair.before.model.graph.node
        added, summed = max(map(count_trees, nodes), default=0), max(map(sum_coefficients, nodes), default=0.0)
        for place, (a, b) in enumerate(zip(expected, actual, strict=True)):
            runs = Runs(
                a,
                b,
                step=step,
                summed=summed,
                added=added,
            )
            one = judge(runs, "exact" if label == CAPTURED else grade)
            if one.why and names[place] in scores:
                held = scores[names[place]]
                told = explain_labels(a, b, expected[names.index(held.scores)], held)
                one = Closeness(is_same=False) if told else one
            if one.why and (label == CAPTURED or how == FAR):
                moved = self._run_moved(pair, kind, feeds[0]) if moved is None else moved
                one = judge(replace(runs, moved=tuple(run[place] for run in moved)), grade)
            is_end = pair.region.outputs[place] in self._bodies[1].outputs
            if label == CAPTURED and not (one.why or self._manner.promise or is_end) and is_only_one_infinite(a, b):
                # what reads it decides, as for any value that two models only name alike
                one = Closeness("infinity instead of the largest number", is_same=False, is_other=True)
            worst = worst.worse(replace(one, place=place))
        if worst.why and self._run_exactly(pair, kind, feeds):
            kind.runs -= 1
            return self._compare_on(pair, kind, values, label=label, how=how)
        if worst.why and len(kind.engines) > 1:
            return self._compare_in_one_engine(pair, kind, feeds, expected, actual, worst)
        kind.closeness = kind.closeness.worse(replace(worst, why=""))
        return worst

    def _compare_in_one_engine(
        self,
        pair: Pair,
        kind: _Kind,
        feeds: Sequence[Feeds],
        expected: Sequence[Any],
        actual: Sequence[Any],
        found: Closeness,
    ) -> Closeness | None:
        """If two engines disagree, compare both sides in onnx.reference; None if that shows the engines differ.

        Runs if the sides ran in different engines and differ.
        """
        try:
            models = (Reference(pair.with_types(which, _types(pair, which, feeds[which]))) for which in range(2))
            one, other = (self._run_in(model, given) for model, given in zip(models, feeds, strict=True))
        except EngineError:
            kind.runs -= 1
            kind.why = "no engine runs both parts, and the two that run one each may differ"
            return None
        if not _differ(one, other):
            return replace(found, why="")
        if _differ(expected, one) or _differ(actual, other):
            kind.runs -= 1
            kind.why = "the engines disagree on the same part"
            return None
        return found

    def _run_exactly(self, pair: Pair, kind: _Kind, feeds: Sequence[Feeds]) -> bool:
        """Switch parts that onnxruntime computes roughly, such as a DFT, to onnx.reference; returns False if there are
        none.
        """
        changed = False
        for which in range(2):
            key = which, _signature(feeds[which])
            model = pair.with_types(which, _types(pair, which, feeds[which]))
            if is_rough(type(kind.sessions[key]), model):
                with suppress(EngineError):
                    kind.sessions[key], changed = Reference(model), True
        return changed

    def _grade(self, kind: _Kind) -> str:
        return self._manner.grade if len(kind.engines) < 2 else "close"

    def _run_moved(self, pair: Pair, kind: _Kind, feeds: Feeds) -> list[Sequence[Any]]:
        """Run the first side on values moved by one rounding, to see how far rounding alone moves its outputs.

        Weights of branches, Loops and functions are moved, too. Runs when outputs on captured values differ by more
        than is allowed.
        """
        moved_runs: list[Sequence[Any]] = []
        model = pair.with_types(0, _types(pair, 0, feeds))
        is_flat = all(body is model.graph for body in bodies(model))
        for seed in range(2):
            moved = {name: move_by_rounding(value, seed) for name, value in feeds.items()}
            with suppress(EngineError):
                moved_runs.append(
                    self._run(pair, kind, 0, moved)
                    if is_flat
                    else self._run_in(_open_part(move_weights(model, seed)), moved)
                )
        return moved_runs

    def _judge_samples(self, pair: Pair, kind: _Kind, feeds: Sequence[Mapping[str, Any]]) -> Closeness:
        """Compare random numbers: the same types, shapes and distribution. Runs for regions with random generators."""
        samples = []
        for which in range(2):
            model = random_operators.remove_seeds(pair.with_types(which, _types(pair, which, feeds[which])))
            try:
                samples.append(random_operators.collect_samples(_open_part(model), feeds[which]))
            except EngineError as error:
                return Closeness(f"cannot be run again: {error}", is_same=False)
        for one, other in zip(*samples, strict=True):
            if one.dtype != other.dtype:
                return Closeness("draws another type", is_same=False)
            if one.dtype.kind in "biuf" and (why := random_operators.unlike(one, other)):
                return Closeness(why, is_same=False)
            if not random_operators.tells(one, other):
                self._remark(kind, f"{one.size} random numbers are too few to tell how they are drawn")
        return Closeness(is_same=False)

    def _run(self, pair: Pair, kind: _Kind, which: int, feeds: Feeds) -> list[Any]:
        """Run one side of a region in the engine that runs it; onnx.reference where onnxruntime lacks a kernel."""
        key = which, _signature(feeds)
        if key not in kind.sessions:
            kind.sessions[key] = None
            kind.sessions[key] = _open_part(pair.with_types(which, _types(pair, which, feeds)))
        session = kind.sessions[key]
        if session is None:
            raise EngineError(kind.why or "no engine runs it")
        try:
            outputs = self._run_in(session, feeds, HASTE if kind.runs else _PATIENCE)
        except EngineError:
            lacking = which == 0 and self._shown.engine is Reference  # a kernel may not do what its operator is to do
            if kind.runs or session.engine == Reference.engine or not (lacking or kind.is_lacking):
                raise
            kind.is_lacking = True
            with suppress(EngineError):
                other = Reference(pair.with_types(which, _types(pair, which, feeds)))
                outputs = self._run_in(other, feeds)
                kind.sessions[key], kind.engines = other, {*kind.engines, other.engine}
                return outputs
            raise
        kind.engines.add(session.engine)
        return outputs

    def _run_in(self, session: Session, feeds: Feeds, seconds: float = _PATIENCE) -> list[Any]:
        try:
            return call_within(seconds if session.engine == Reference.engine else math.inf, session.run, feeds)
        except EngineError as error:
            why = getattr(session, "instead_of", "")
            raise EngineError(
                f"{error} in onnx.reference; onnxruntime does not load it: {why}" if why else str(error)
            ) from None

    def _weights(self, pair: Pair, which: int) -> dict[str, Any]:
        """Load the constants that a part takes as inputs. Runs before each run of a part."""
        if self._read[which] is None or self._read[which][0] is not pair:
            part, body = (pair.before, pair.after)[which], self._bodies[which]
            read = {name: numpy_helper.to_array(body.tensor(of)) for name, of in part.weights.items()}
            self._read[which] = pair, read
        weights: dict[str, Any] = self._read[which][1]
        return weights

    def _make_finding(self, kind: _Kind) -> Finding:
        """Make the report line of a kind of region: equal, different, or not covered."""
        region = kind.pair.region if not kind.failures else kind.failures[0].region
        finding = Finding(
            _operators(kind.pair.before.model),
            _operators(kind.pair.after.model),
            region.outputs,
            names_of(self._bodies[0], region.before),
            names_of(self._bodies[1], region.after),
            len(kind.places),
            EQUAL if kind.runs and not kind.broken else UNCOVERED,
            kind.runs,
            kind.captured,
            kind.closeness.difference,
            kind.closeness.allowed,
            kind.closeness.is_same,
            why=kind.broken or ("" if kind.runs else kind.why),
            engines=" and ".join(sorted(kind.engines)),
        )
        if not kind.failures:
            return finding
        label, why = kind.failures[0].label, kind.failures[0].why
        if _is_blind(kind):
            why = f"onnx.reference runs some old operators by their newest definition ({why})"
            return replace(finding, status=UNCOVERED, why=why)
        return replace(finding, status=DIFFERENT, label=label, why=why)


_DEEPEST = 8
"""Bodies in bodies that are looked into."""
_ANY = frozenset(
    (
        *("Add", "BatchNormalization", "Conv", "ConvTranspose", "Div", "Gather", "Gemm", "GroupNormalization"),
        *("InstanceNormalization", "LayerNormalization", "MatMul", "Mul", "Neg", "RMSNormalization", "Sub", "Sum"),
    )
)
"""Operators whose results may be any number."""
_ANY_CLASSICAL = frozenset(["Imputer", "Scaler"])
"""The same of ai.onnx.ml."""
_MOVING = frozenset(
    (
        *("Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
        *("GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMin"),
    )
)
"""Operators that move or choose elements: one of a Shape is a size, and no free number; one of a table may be any."""


def _open_part(model: ModelProto) -> Session:
    """Open a small model in onnxruntime, or in onnx.reference if that fails; raises `EngineError`.

    Runs once for each part and types of inputs.
    """
    try:
        return OnnxRuntime(as_written(model))
    except EngineError as error:
        try:
            session = Reference(model)
        except EngineError:
            raise error from None
        session.instead_of = str(error)
        return session


def _open_capture(side: Side, names: Sequence[str]) -> tuple[Session | None, set[str]]:
    """Open the first model with inner values as outputs; returns which of them it can yield."""
    computed = {name for node in side.model.graph.node for name in node.output}
    known = computed.intersection(names)
    outputs = [value.name for value in side.model.graph.output]
    engines = dict.fromkeys([side.engine, OnnxRuntime, Reference])
    for engine in (one for one in engines if one in ENGINES) if known else ():
        with suppress(EngineError):
            return replace(side, engine=engine).open((), [n for n in sorted(known) if n not in outputs]), known
    return None, known


def _add_place(label: str, why: str) -> str:
    """Prefix a reason with the innermost body that it is about."""
    return why if not why or why.startswith("in ") else f"in {label}: {why}"


def _find_resized(kind: _Kind) -> frozenset[str]:
    """Find the inputs of a kind whose shape was not the same in all runs."""
    shapes: dict[str, set[Any]] = {}
    for run in kind.shapes:
        for name, _, shape in run:
            shapes.setdefault(name, set()).add(shape)
    return frozenset(name for name, of_name in shapes.items() if len(of_name) > 1)


def _of_other_ranks(base: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Make inputs with one element, and of other ranks, for a branch whose sizes nobody feeds."""
    import numpy as np

    tensors = {name: value for name, value in base.items() if getattr(value, "ndim", 0) and value.size}
    yield {**base, **{name: value[(slice(1),) * value.ndim] for name, value in tensors.items()}}
    for rank in range(1, 5):
        yield {**base, **{name: np.resize(value, (2,) * rank) for name, value in tensors.items()}}


def _types(pair: Pair, which: int, feeds: Feeds) -> dict[str, TypeProto]:
    """Find the types of a part's inputs from the values to feed; raises `EngineError` for values without a type.

    Runs before a part is opened.
    """
    part = (pair.before, pair.after)[which]
    try:
        return {value.name: type_of(feeds[value.name]) for value in part.model.graph.input}
    except (ValueError, KeyError) as error:
        raise EngineError(f"an input has no type: {error}") from None


def _signature(feeds: Feeds) -> tuple[Any, ...]:
    return tuple((name, str(getattr(v, "dtype", type(v))), getattr(v, "ndim", -1)) for name, v in feeds.items())


def _where_finite(before: Any, after: Any) -> Any:
    """Take the first model's numbers where they are not finite: how large a number overflows, a form may decide."""
    import numpy as np

    if not is_float(before) or getattr(after, "shape", None) != before.shape or after.dtype != before.dtype:
        return after
    return np.where(np.isfinite(before), after, before)


def _differ(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Compare the outputs of two runs: whether one differs by more than `close` allows."""
    return any(compare(a, b, "close").why for a, b in zip(one, other, strict=True))


def _of_different_sizes(runs: Sequence[Feeds]) -> list[Feeds]:
    """Keep the first run of each combination of sizes."""
    by_sizes: dict[Any, Feeds] = {}
    for run in runs:
        by_sizes.setdefault(tuple(getattr(value, "shape", None) for value in run.values()), run)
    return list(by_sizes.values())[:_CAPTURED]


def _size(values: Mapping[str, Any]) -> int:
    return sum(getattr(value, "size", 0) for value in values.values())


def _operators(model: ModelProto) -> tuple[str, ...]:
    return tuple(node.op_type for node in model.graph.node)


def _draws_numbers(pair: Pair) -> bool:
    """Whether a part draws random numbers, as a Dropout in training does. Asked before outputs are compared."""
    nodes = [node for part in (pair.before, pair.after) for body in bodies(part.model) for node in body.node]
    return any(
        node.op_type in random_operators.GENERATORS
        and (node.op_type != "Dropout" or any(node.input[2:]) or any(a.name == "seed" for a in node.attribute))
        for node in nodes
    )


def _quantization_step(pair: Pair, feeds: Sequence[Feeds]) -> float:
    """Compute the quantization step by which results may differ, if the sides quantize at different places.

    Added to what is allowed for a quantized region.
    """
    import numpy as np

    counts = []
    for part in (pair.before, pair.after):
        ops = [node.op_type for node in part.model.graph.node]
        counts.append(
            [op for op in ops if "QuantizeLinear" in op or op.startswith("QLinear") or op in ("QGemm", "QMoE")]
        )
    if not any(counts) or counts[0] == counts[1]:
        return 0.0
    steps = []
    for part, given in zip((pair.before, pair.after), feeds, strict=True):
        constants = {tensor.name: tensor for tensor in part.model.graph.initializer}
        for node in part.model.graph.node:
            for name in node.input[1:] if "Q" in node.op_type or node.op_type == "DequantizeLinear" else ():
                value = given.get(name)
                if value is None and name in constants:
                    value = tensors.array(constants[name])
                if is_float(value) and value.size:
                    steps.append(float(np.abs(value.astype(np.float64)).max()))
    return max(steps, default=0.0)


def _has_undefined_scale(pair: Pair, values: Mapping[str, Any]) -> bool:
    """Whether DynamicQuantizeLinear is given zeros alone, or numbers whose range is no number.

    Then the values prove nothing and are skipped.

    Of zeros, onnxruntime makes a scale of 1, onnx.reference one of 1 / 255, and the text one of 0: the product is 0.
    """
    import numpy as np

    for part in (pair.before, pair.after):
        for node in part.model.graph.node:
            value = values.get(node.input[0]) if node.op_type == "DynamicQuantizeLinear" else None
            with np.errstate(all="ignore"):
                if value is not None and not 0 < value.max(initial=0) - value.min(initial=0) < math.inf:
                    return True
    return False


def _is_blind(kind: _Kind) -> bool:
    """Check if onnx.reference may have run an operator by a newer definition, so that its results prove nothing."""
    if Reference.engine not in kind.engines:
        return False
    versions = _find_blind_operators(kind)
    return versions[0] != versions[1] or (len(kind.engines) > 1 and bool(versions[0]))


def _find_blind_operators(kind: _Kind) -> list[set[tuple[str, int | None]]]:
    """Find operators on both sides that onnx.reference runs by their newest definition, with their versions."""
    versions = []
    for part in (kind.pair.before.model, kind.pair.after.model):
        opset = imports.opsets(part).get("", 1)
        ops = {node.op_type for node in part.graph.node if not normalize_domain(node.domain)}
        versions.append({(op, schemas.since("", op, opset)) for op in ops & _BLIND})
    return versions

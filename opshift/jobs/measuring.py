"""Measure what other element types cost: the ranges of values, and how far outputs move when values are rounded.

The source is run with all its values as outputs, to see their ranges. The result is run in float32, with a cast to the
new type and back behind each value, to see how far outputs move. If they move further than allowed, the parts that
move them most keep their types.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from opshift.passes import progress
from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, normalize_domain
from opshift.passes.model.types import tensor_type
from opshift.passes.records import dataclass, replace
from opshift.passes.types.door import (
    BUDGET,
    FORMATS,
    MEASURED,
    MOVING,
    Range,
    Reason,
    Seen,
    Types,
    as_floats,
    change,
    round_array,
    simulate,
)
from opshift.verification import isolation
from opshift.verification.engines import EngineError, OnnxRuntime
from opshift.verification.feeding import inputs as feeding
from opshift.verification.feeding.asked import Asked
from opshift.verification.feeding.meanings import meanings
from opshift.verification.side import Side

T = TensorProto

MOST = 1 << 30
"""A model with more bytes of weights is run only if the user asks for it."""
_SECONDS = 600
_PARTS = 8
"""The nodes are divided into so many parts, to see which of them move the outputs."""
_PIECES = 4
"""A noisy part is divided into so many smaller parts."""
_GOAL = 0.8
"""The parts that change their types may make so much noise together, relative to what is allowed."""
_FAR = 1e8
"""More noise than this counts as this much."""
_LITTLE = 0.05
"""If parts that keep their types are a smaller share of the model than this, they are not divided further."""
_MOST_RUNS, _TRIES = 60, 12
"""The most runs to see which parts move the outputs, and the most tries to change the types of kept parts again."""
_ENOUGH = 1 << 26
"""Once so many numbers were looked at, no more inputs are drawn."""
_MASKINGS = 3
"""The runs in which each row of a mask hides everything, nothing, and a part."""
_CHOICES = 0.01
"""The share of decisions that may change when their inputs are rounded."""
_OTHER_INPUTS = 7919
"""Added to the seed, so that outputs are compared on other inputs than ranges were measured on."""
_SIGMOID = 2.0**-22
"""Smaller differences of Sigmoid do not count: the engine computes it with an error of 1.7e-7.

Detectors find nothing in random pictures, and return numbers smaller than this.
"""
_QUIET = 0.1
"""If an output of one run is smaller than this share of other runs, its error is relative to these."""
_SAMPLE = 1024
"""About so many elements are looked at first, to see whether all are integers."""
_CHOOSING = frozenset(
    [
        *("ArgMax", "ArgMin", "TopK", "NonMaxSuppression", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("Equal", "Round", "Floor", "Ceil", "QuantizeLinear", "Hardmax"),
    ]
)
_STEPPING = ("QuantizeLinear", "Round", "Floor", "Ceil")
"""Operators that round to steps. A number that falls to the next step is noise: the outputs show what it costs."""
_COUNTED = frozenset([*MOVING, "Add", "Sub", "Mul", "Div", "Clip", "Min", "Max", "Sum", "Neg", "Abs"])
"""Operators that read integers as numbers; other inputs, such as the indices of Gather, are decisions."""


@dataclass(frozen=True)
class Deviation:
    """How far an output moves by other element types, in all runs.

    Attributes:
        output: its name.
        allowed: how large the error may be.
        largest: the largest difference of an element.
        peak: the largest magnitude of an element.
        same: the rows in which the same element is the largest.
        rows: how many rows there are.
        why: what cannot be compared.
        noise: the squares of differences, added up so that each run counts alike; of integers, how many differ.
        signal: the squares of the output; of integers, how many there are.
    """

    output: str
    allowed: float
    noise: float = 0.0
    signal: float = 0.0
    largest: float = 0.0
    peak: float = 0.0
    same: int = 0
    rows: int = 0
    counted: bool = False
    why: str = ""

    @property
    def error(self) -> float:
        """The root mean square of the difference, divided by that of the output; for integers the share that differs.

        Compared with the budget of `--budget`.
        """
        if not self.noise or self.why:
            return math.inf if self.why else 0.0
        share = self.noise / self.signal if self.signal else math.inf
        return share if self.counted else math.sqrt(share)

    @property
    def decibels(self) -> float:
        """The ratio of signal to noise in decibels, for reports."""
        if self.counted or not self.noise:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal and not self.why else -math.inf

    @property
    def first(self) -> float | None:
        """The share of rows in which the same element is the largest; None where there are no rows."""
        return self.same / self.rows if self.rows else None

    @property
    def holds(self) -> bool:
        """Tell whether the output moves no further than allowed."""
        return self.error <= self.allowed

    def join(self, other: Deviation) -> Deviation:
        """Combine the deviations of two runs."""
        return replace(
            self,
            noise=self.noise + other.noise,
            signal=self.signal + other.signal,
            largest=max(self.largest, other.largest),
            peak=max(self.peak, other.peak),
            same=self.same + other.same,
            rows=self.rows + other.rows,
            counted=self.counted or other.counted,
            why=self.why or other.why,
        )


@dataclass(frozen=True)
class Measured:
    """The result of measuring a change of types.

    Attributes:
        types: the wanted types, with the ranges of values, and the nodes that have to keep their types.
        deviations: how far each output moves.
        runs: how many models were run, each with other types.
        why: why nothing was measured.
    """

    types: Types
    deviations: tuple[Deviation, ...] = ()
    runs: int = 0
    why: str = ""

    @property
    def holds(self) -> bool:
        """Tell whether no output moves further than allowed."""
        return all(each.holds for each in self.deviations)


def measure(side: Side, types: Types, wanted: Asked) -> Measured:
    """Run the model to see the ranges of its values, and find nodes that must keep their types so that outputs move no
    further than allowed.

    Runs before types change, in a process of its own, as a model may crash an engine.
    """
    size = sum(map(tensor_data.nbytes, side.model.graph.initializer))
    if size > MOST and not (wanted.runs or wanted.sets):
        return Measured(types, why=f"{size >> 20} MB of weights; --runs 1 runs the model as well")
    try:
        return isolation.call(_measure, side, types, wanted)
    except isolation.Ended as ended:
        return Measured(types, why=f"it took more than {_SECONDS} s" if ended.late else str(ended))
    except EngineError as error:
        return Measured(types, why=str(error))


def _measure(side: Side, types: Types, wanted: Asked) -> Measured:
    """Do the work of `measure`, in its process: see ranges on some inputs, then choose types on other ones."""
    isolation.end_after(_SECONDS)
    quietly = replace(wanted, save=None, smooth=True)
    progress.tell("see the ranges of values")
    looked = _observe(side, types, quietly)
    types = replace(types, seen=looked.seen)
    others = replace(quietly, seed=wanted.seed + _OTHER_INPUTS)
    runs = looked.runs if wanted.sets else _runs(side, others, len(looked.runs)) or looked.runs
    masks = _masks(side.model)
    masked = _run_masked(side, masks, runs[:1])
    if len(masked) == _MASKINGS:
        types = replace(types, seen=replace(looked.seen, masks=masks))
    return _Settling(side, types, [*runs, *masked], looked.steps).settle()


def compare(before: Side, after: Side, types: Types, wanted: Asked) -> Measured:
    """Run a model and the one that `--types` made of it with wider types, and measure how far outputs move.

    Both run in a process of their own, as a model may crash an engine.
    """
    try:
        return isolation.call(_compare, before, after, types, wanted)
    except isolation.Ended as ended:
        return Measured(types, why=f"it took more than {_SECONDS} s" if ended.late else str(ended))
    except EngineError as error:
        return Measured(types, why=str(error))


def _compare(before: Side, after: Side, types: Types, wanted: Asked) -> Measured:
    """Do the work of `compare`, in its process: see whether outputs move no further than allowed."""
    isolation.end_after(_SECONDS)
    before, after = _without_bfloat16(before), _without_bfloat16(after)
    settling = _Settling(before, types, _runs(before, wanted))
    return Measured(types, settling.measure_moves(after, types), 1)


def _without_bfloat16(side: Side) -> Side:
    """Simulate a model with bfloat16 inputs or outputs in float32 with rounding, as numpy has no bfloat16."""
    graph = side.model.graph
    if all(value.type.tensor_type.elem_type != T.BFLOAT16 for value in (*graph.input, *graph.output)):
        return side
    return Side(simulate(side.model, side.folder), side.folder)


def _open(side: Side, names: Sequence[str]) -> Any:
    """Open a model in an engine with more values as outputs; without them if the engine rejects that.

    Runs before the source is run to see its values.
    """
    try:
        return side.open(more=names) if names else side.open()
    except EngineError:
        if not names:
            raise
        return side.open()


def _list_watched(model: ModelProto) -> list[str]:
    """List values of the main graph to look at in a run: all that nodes compute, except sizes and constants."""
    known = {value.name for value in model.graph.output}
    computed = [
        name
        for node in model.graph.node
        if normalize_domain(node.domain) or node.op_type not in ("Constant", "Shape", "Size")
        for name in node.output
        if name
    ]
    return [name for name in dict.fromkeys(computed) if name not in known]


# --- ranges and choices ----------------------------------------------------------------------------------------------


Run = tuple[dict[str, Any], list[Any]]
"""Inputs, and the outputs of the source for them."""


class _Looked(NamedTuple):
    """The ranges of values, the runs, and the nodes that would round to other steps if their inputs were rounded."""

    seen: Seen
    runs: list[Run]
    steps: dict[str, Reason]


def _observe(side: Side, types: Types, wanted: Asked) -> _Looked:
    """Run the source to see the ranges of all values, and which decisions (ArgMax, comparisons) change if their
    inputs are rounded.
    """
    names = _list_watched(side.model)
    session = _open(side, names)
    ranges: dict[str, Range] = {}
    choices: dict[str, Reason] = {}
    steps: dict[str, Reason] = {}
    runs: list[Run] = []
    results = [value.name for value in side.model.graph.output]
    target = next(iter(types.mapping.values()))
    readers = _readers(side.model)
    count, held = 0, list[Any]()

    def run(given: Mapping[str, Any]) -> list[Any]:
        """Run the source on one set of inputs, and keep all intermediate values of that run."""
        nonlocal held
        try:
            outputs = session.run(given, [*results, *names])
            held = outputs[len(results) :]
        except EngineError:
            held, outputs = [], session.run(given)
        return list(outputs[: len(results)])

    for fed in feeding.running(side, run, wanted):
        runs.append((fed.given, fed.outputs))
        values: dict[str, Any] = {**fed.given, **dict(zip(results, fed.outputs, strict=True))}
        values |= dict(zip(names, held, strict=False))
        for name, value in values.items():
            seen = range_of(value, target)
            if seen is not None:
                ranges[name] = widest(ranges[name], seen) if name in ranges else seen
                count += value.size
        for node in _find_deciding(side.model):
            kind = steps if _is_step(node, readers) else choices
            why = None if node.output[0] in kind else _find_changed_decisions(side.model, node, values, target)
            if why:
                kind[node.output[0]] = why
        if count > _ENOUGH and not wanted.sets:
            break
    return _Looked(Seen(ranges, bool(wanted.sets), choices), runs, steps)


def _readers(model: ModelProto) -> dict[str, list[NodeProto]]:
    """Index the nodes of the main graph by the values that they read. Runs before the source is run to see its
    values.
    """
    readers: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    return readers


def _is_step(node: NodeProto, readers: Mapping[str, list[NodeProto]]) -> bool:
    """Tell whether the output of a node that rounds, such as Round, is used as a number, not as an index or condition.

    Such a node is judged by how far outputs move, not by how many of its decisions change.
    """
    if node.op_type in _STEPPING:
        return True
    if node.op_type != "Cast":
        return False
    pending, seen = [node.output[0]], set[str]()
    for name in pending:
        for reader in readers.get(name, ()):
            if reader.op_type in ("Cast", "DequantizeLinear") and not _to_integer(reader):
                continue
            if reader.op_type not in _COUNTED or (reader.op_type in MOVING and reader.input[0] != name):
                return False
            if reader.output[0] not in seen and len(seen) < 64:
                seen.add(reader.output[0])
                pending.append(reader.output[0])
    return True


def range_of(value: Any, target: int) -> Range | None:
    """Find the range of an array; None for anything but floats.

    `target` is the type that it may get. Asked for each value in each run.
    """
    import numpy as np

    if getattr(getattr(value, "dtype", None), "kind", "") != "f" or not value.size:
        return None
    most, finite = max(float(value.max()), -float(value.min())), True
    if not math.isfinite(most):
        finite = False
        value = np.where(np.isfinite(value), value, 0)
        most = max(float(value.max()), -float(value.min()))
    some = value.reshape(-1)[:: max(value.size // _SAMPLE, 1)]
    whole = most > FORMATS[target].integers and bool(np.array_equal(some, np.rint(some)))
    whole = whole and bool(np.array_equal(value, np.rint(value)))
    whole = whole and not np.array_equal(as_floats(round_array(value, target), target), value)
    return Range(most, whole, finite)


def widest(one: Range, other: Range) -> Range:
    """Join two ranges into one that holds both."""
    return Range(max(one.most, other.most), one.whole or other.whole, one.finite and other.finite)


def _find_deciding(model: ModelProto) -> Iterator[NodeProto]:
    """List nodes that decide: comparisons, ArgMax, TopK, and Casts to integers.

    Runs before the source is run to see its values.
    """
    for node in model.graph.node:
        if not normalize_domain(node.domain) and (node.op_type in _CHOOSING or _to_integer(node)):
            yield node


def _to_integer(node: NodeProto) -> bool:
    return node.op_type == "Cast" and any(a.name == "to" and a.i in (T.INT32, T.INT64) for a in node.attribute)


def _find_changed_decisions(
    model: ModelProto, node: NodeProto, values: Mapping[str, Any], target: int
) -> Reason | None:
    """Run one deciding node on its inputs, exact and rounded; say how many decisions change, if these are too many.

    The node then has to read unrounded values.
    """
    import numpy as np

    constants = _constants(model, node)
    given, changed = dict[str, Any](), dict[str, Any]()
    for name in filter(None, node.input):
        if name in constants:
            continue
        value = values.get(name)
        if value is None or not hasattr(value, "dtype"):
            return None
        given[name] = changed[name] = value
        if value.dtype == np.float32:
            changed[name] = as_floats(round_array(value, target), target).astype(np.float32)
    if not any(given[name] is not changed[name] for name in given):
        return None
    alone = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    alone.graph.name = "choice"
    alone.graph.node.add().CopyFrom(node)
    alone.graph.initializer.extend(constants.values())
    import onnx.helper

    for name, value in given.items():
        elem_type = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        alone.graph.input.add(name=name, type=tensor_type(elem_type, [None] * value.ndim))
    for name in filter(None, node.output):
        alone.graph.output.add(name=name)
    try:
        session = OnnxRuntime(alone)
        before, after = session.run(given), session.run(changed)
    except EngineError:
        return None
    share = max(map(_share, before, after), default=0.0)
    if share <= _CHOICES:
        return None
    return Reason(f"rounded, it changes {share:.0%} of the decisions of {node.op_type}", MEASURED)


def _constants(model: ModelProto, node: NodeProto) -> dict[str, TensorProto]:
    """Collect copies of the constants that a node reads, to run it alone."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer if tensor.name in node.input}
    for other in model.graph.node:
        if other.op_type == "Constant" and other.output[0] in node.input and other.output[0] not in constants:
            value = tensors.of_constant(other)
            if value is not None:
                constants[other.output[0]] = TensorProto()
                constants[other.output[0]].CopyFrom(value)
                constants[other.output[0]].name = other.output[0]
    return constants


def _share(before: Any, after: Any) -> float:
    """Compute the share of decisions that differ between two results; 0 for fractions, which are no decisions."""
    import numpy as np

    if before.dtype.kind == "f" and not np.array_equal(before, np.rint(before)):
        return 0.0
    if before.shape != after.shape:
        rows = [set(map(tuple, each.reshape(each.shape[0], -1).tolist())) for each in (before, after) if each.ndim]
        return len(rows[0] ^ rows[1]) / max(len(rows[0] | rows[1]), 1) if len(rows) == 2 else 1.0
    return float(np.mean(before != after)) if before.size else 0.0


# --- how far outputs move --------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """A part of the model: its nodes by their first outputs, their noise, and their share of the model.

    Noise is the square of how far they alone move outputs, relative to what is allowed.
    """

    names: list[str]
    noise: float
    share: float


class _Settling:
    """Finds the parts that have to keep their types so that outputs move no further than allowed."""

    def __init__(self, side: Side, types: Types, runs: list[Run], steps: Mapping[str, Reason] | None = None):
        """`steps` are the nodes whose rounding changes with the types, by their first outputs, with a reason each."""
        self._side = side
        self._types = types
        self._given = runs
        self._steps = steps or {}
        self._names = [value.name for value in side.model.graph.output]
        self._sigmoids = _find_sigmoids(side.model)
        self._replaces = False
        self.runs = 0

    def settle(self) -> Measured:
        """Change all types and measure; if outputs move too far, let the parts that move them most keep their types."""
        deviations = self._measure_deviations(self._types)
        for keeping in (self._keep_steps, self._keep_masks):
            if _noise(deviations) <= 1:
                break
            types = keeping()
            kept = self._measure_deviations(types) if types is not self._types else deviations
            if _noise(kept) < _noise(deviations) / 2:
                self._types, deviations = types, kept
        noise = _noise(deviations)
        if noise <= 1:
            return Measured(self._types, deviations, self.runs)
        return self._find_kept(self._refine(noise, self._choose_runs(deviations)))

    def _keep_steps(self) -> Types:
        """Let nodes that round, such as Round and QuantizeLinear, read unrounded numbers."""
        seen = self._types.seen
        if seen is None or not self._steps:
            return self._types
        return replace(self._types, seen=replace(seen, choices={**seen.choices, **self._steps}))

    def _keep_masks(self) -> Types:
        """Let added masks, such as -1e9, keep their type: a smaller number might not hide scores larger than those
        seen.
        """
        seen = self._types.seen
        if seen is None or not self._replaces:
            return self._types
        return replace(self._types, seen=replace(seen, exact_masks=True))

    def _find_kept(self, parts: list[_Part]) -> Measured:
        """Find the fewest parts that have to keep their types, first those that make most noise for their size."""
        parts.sort(key=lambda part: part.noise / max(part.share, 1e-9), reverse=True)

        def measure_keeping(kept: Sequence[_Part]) -> Measured:
            """Measure the model with these parts in their old types. Runs for each choice of parts."""
            reasons = {
                name: Reason(
                    f"with its neighbours, it moves an output by {_spell_share(math.sqrt(part.noise))}",
                    BUDGET,
                    MEASURED,
                )
                for part in kept
                for name in part.names
            }
            types = replace(self._types, held=reasons)
            return Measured(types, self._measure_deviations(types))

        few, many, best = 0, len(parts), measure_keeping(parts)
        while many - few > 1 and best.holds:
            middle = (few + many) // 2
            measured = measure_keeping(parts[:middle])
            if measured.holds:
                many, best = middle, measured
            else:
                few = middle
        kept = parts[:many]
        pending = list(kept)
        for _ in range(_TRIES if best.holds else 0):
            if not pending:
                break
            part = max(pending, key=lambda part: part.share)
            pending.remove(part)
            kept.remove(part)
            measured = measure_keeping(kept)
            if measured.holds:
                best = measured
                continue
            halves = _divide(part.names, 2) if len(part.names) > 1 else [part.names]
            pieces = [_Part(names, part.noise, part.share / len(halves)) for names in halves]
            kept += pieces
            pending += pieces if len(pieces) > 1 else []
        return replace(best, runs=self.runs)

    def _choose_runs(self, found: Sequence[Deviation]) -> list[Run]:
        """Choose at most two runs on which parts are measured, to save time: the one in which the worst output is
        largest, and the one in which it moves furthest, for example by a mask that hides everything.
        """
        import numpy as np

        worst = max(range(len(found)), key=lambda at: found[at].error / found[at].allowed)

        def size(run: Run) -> float:
            value = run[1][worst]
            return float(np.square(value, dtype=np.float64).sum()) if getattr(value, "dtype", "") == np.float32 else 0.0

        def noise(run: Run) -> float:
            moved = self._measure_deviations(self._types, [run])[worst]
            return math.inf if moved.why else moved.noise

        chosen = [max(self._given, key=size), max(self._given, key=noise)] if len(self._given) > 1 else self._given
        return chosen[: 1 if chosen[0] is chosen[-1] else 2]

    def _refine(self, noise: float, runs: list[Run]) -> list[_Part]:
        """Divide the model into parts, and the noisy ones into smaller parts, and measure the noise of each."""
        outputs = self._outputs()
        shares = _shares(self._side.model, outputs)

        def divide(names: Sequence[str], count: int) -> list[_Part]:
            """Divide a part into smaller ones, and measure each alone."""
            pieces = _divide(names, count)
            return [
                _Part(each, self._measure_alone(each, outputs, runs), sum(shares[name] for name in each))
                for each in pieces
            ]

        parts = divide(outputs, _PARTS)
        while self.runs + _PIECES <= _MOST_RUNS:
            chosen = _choose(parts, noise)
            larger = [part for part in chosen if len(part.names) > 1]
            if sum(part.share for part in chosen) <= _LITTLE or not larger:
                break
            worst = max(larger, key=lambda part: part.share)
            parts.remove(worst)
            parts += divide(worst.names, _PIECES)
        return parts

    def _outputs(self) -> list[str]:
        """List nodes whose types change, by their first outputs, in the order of the model."""
        result = change(self._side.model, self._types, self._side.folder)
        named = {each.node for each in result.changes}
        firsts: list[str] = []
        for node in self._side.model.graph.node:
            first = next(filter(None, node.output), "")
            if (node.name or first) in named and first:
                firsts.append(first)
        return firsts

    def _measure_alone(self, part: Sequence[str], made: Sequence[str], runs: list[Run]) -> float:
        """Measure the noise at the outputs if only one part changes its types. Runs for each part."""
        changing = set(part)
        others = {name: Reason("another part is measured") for name in made if name not in changing}
        progress.tell("see what moves the outputs", self.runs, _MOST_RUNS)
        return min(_noise(self._measure_deviations(replace(self._types, held=others), runs)), _FAR)

    def _measure_deviations(self, types: Types, runs: list[Run] | None = None) -> tuple[Deviation, ...]:
        """Change the types, simulate the rounding in float32, and measure how far each output moves.

        Runs for each choice of types.
        """
        self.runs += 1
        result = change(self._side.model, types, self._side.folder)
        self._replaces = result.types is not None and bool(result.types.replaced)
        if result.model is None or result.model is self._side.model:
            return tuple(Deviation(name, types.budget(name)) for name in self._names)
        return self.measure_moves(Side(simulate(result.model, self._side.folder), self._side.folder), types, runs)

    def measure_moves(self, after: Side, types: Types, runs: list[Run] | None = None) -> tuple[Deviation, ...]:
        """Run another model, and measure how far its outputs are from those of the source."""
        session = after.open()
        elem_types = {value.name: value.type.tensor_type.elem_type for value in after.model.graph.input}
        by_output: dict[str, list[Deviation]] = {}
        for given, expected in self._given if runs is None else runs:
            actual = session.run(_cast_inputs(given, elem_types))
            for name, one, other in zip(self._names, expected, actual, strict=True):
                seen = deviation(name, one, other, types.budget(name), _SIGMOID if name in self._sigmoids else 0.0)
                by_output.setdefault(name, []).append(seen)
        return tuple(map(_combine, by_output.values()))


def _combine(runs: Sequence[Deviation]) -> Deviation:
    """Combine the deviations of an output in several runs, so that each run counts alike.

    Else a run with large numbers would hide the error of one with small numbers. The error of a run with much smaller
    numbers than the others is relative to the others.
    """
    joined = functools.reduce(Deviation.join, runs)
    if joined.counted or not joined.signal:
        return joined
    least = _QUIET**2 * max(each.signal for each in runs)
    shares = [each.noise / max(each.signal, least) for each in runs]
    return replace(joined, noise=joined.signal * sum(shares) / len(shares))


def _find_sigmoids(model: ModelProto) -> set[str]:
    """Find the outputs that Sigmoid computes; operators that only move values may follow it."""
    makers = {name: node for node in model.graph.node for name in node.output}
    found: set[str] = set()
    for value in model.graph.output:
        node = makers.get(value.name)
        while node is not None and node.op_type in MOVING:
            node = makers.get(node.input[0])
        if node is not None and node.op_type == "Sigmoid":
            found.add(value.name)
    return found


def _noise(found: Sequence[Deviation]) -> float:
    """Square the largest deviation relative to what is allowed: the limit is 1. The noise of parts adds up."""
    return max((each.error / each.allowed for each in found), default=0.0) ** 2


def _choose(parts: Sequence[_Part], noise: float) -> list[_Part]:
    """Choose the parts that likely have to keep their types, if their noise adds up to `noise`.

    Used while parts are refined.
    """
    left = sum(part.noise for part in parts)
    allowed = left * _GOAL / min(noise, _FAR)
    chosen: list[_Part] = []
    for part in sorted(parts, key=lambda part: part.noise / max(part.share, 1e-9), reverse=True):
        if left > allowed:
            chosen.append(part)
            left -= part.noise
    return chosen


def _shares(model: ModelProto, made: Sequence[str]) -> dict[str, float]:
    """Compute how large each node is as a share of the model: by weights and by number of nodes, half each.

    Used while parts are refined.
    """
    sizes = {tensor.name: tensors.size(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        value = tensors.of_constant(node) if node.op_type == "Constant" else None
        if value is not None:
            sizes[node.output[0]] = tensors.size(value)
    weights = dict.fromkeys(made, 0)
    for node in model.graph.node:
        first = next(filter(None, node.output), "")
        if first in weights:
            weights[first] = sum(sizes.get(name, 0) for name in node.input)
    whole = sum(weights.values()) or 1
    return {name: (count / whole + 1 / len(weights)) / 2 for name, count in weights.items()}


def _spell_share(share: float) -> str:
    return "more than 10 times what is allowed" if share > 10 else f"{share:.1g} times what is allowed"


def _divide(names: Sequence[str], count: int) -> list[list[str]]:
    """Divide a list of names into so many consecutive pieces."""
    size = max(math.ceil(len(names) / count), 1)
    return [list(names[start : start + size]) for start in range(0, len(names), size)]


def _runs(side: Side, wanted: Asked, most: int | None = None) -> list[Run]:
    """Run the source on inputs, drawn or given; returns inputs and outputs of each run, none if the engine fails."""
    with suppress(EngineError):
        session = side.open()
        return [(fed.given, fed.outputs) for fed in islice(feeding.running(side, session.run, wanted), most)]
    return []


def _run_masked(side: Side, masks: Sequence[str], runs: Sequence[Run]) -> list[Run]:
    """Run the model with masks whose rows hide everything, a part and nothing.

    Random masks hide nothing or half of a row. But only in a row that hides everything does Softmax show whether the
    number that replaced -1e9 is large enough. Some masks hide where they are 1, others where they are 0.
    """
    import numpy as np

    found: list[Run] = []
    for given, _ in runs:
        held = {name: given[name] for name in masks if getattr(given.get(name), "ndim", 0)}
        for turn in range(_MASKINGS if held else 0):
            fed = dict(given)
            for name, value in held.items():
                length = value.shape[-1]
                ends = np.array([0, length, (length + 1) // 2])[(np.arange(math.prod(value.shape[:-1])) + turn) % 3]
                fed[name] = (np.arange(length) < ends[:, None]).reshape(value.shape).astype(value.dtype)
            with suppress(EngineError):
                found.append((fed, list(side.open().run(fed))))
    return found


def _masks(model: ModelProto) -> tuple[str, ...]:
    """List the inputs that are masks by their use in the model, and all boolean inputs."""
    types = {value.name: value.type for value in model.graph.input}
    known = meanings(model, types).of
    return tuple(
        name for name, each in types.items() if known.get(name) == "mask" or each.tensor_type.elem_type == T.BOOL
    )


def _cast_inputs(given: Mapping[str, Any], elem_types: Mapping[str, int]) -> dict[str, Any]:
    """Cast inputs to the types that the retyped model takes. Runs before each run of the retyped model."""
    import numpy as np

    dtypes = {T.FLOAT: np.float32, T.DOUBLE: np.float64, T.FLOAT16: np.float16}
    return {
        name: value.astype(dtypes[elem_type])  # type: ignore[index]
        if (elem_type := elem_types.get(name, 0)) in dtypes
        and getattr(getattr(value, "dtype", None), "kind", "") == "f"
        else value
        for name, value in given.items()
    }


def deviation(name: str, expected: Any, actual: Any, allowed: float, unseen: float = 0.0) -> Deviation:
    """Measure how far one output moved in one run; differences up to `unseen` do not count."""
    import numpy as np

    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        result = Deviation(name, allowed)
        for one, other in zip(expected, actual, strict=True):
            result = result.join(deviation(name, one, other, allowed, unseen))
        return result
    if getattr(expected, "shape", None) != getattr(actual, "shape", ()):
        return Deviation(name, allowed, why="it has another shape")
    if expected.dtype.kind != "f":
        differ = int(np.count_nonzero(expected != actual))
        return Deviation(name, allowed, differ, expected.size, differ / max(expected.size, 1), counted=True)
    one, other = expected.astype(np.float64), actual.astype(np.float64)
    alike = np.isclose(one, other, rtol=0, atol=unseen, equal_nan=True)
    if not np.isfinite(other[~alike]).all():
        return Deviation(name, allowed, largest=math.inf, why="numbers became infinite or NaN")
    gap = np.subtract(one, other, out=np.zeros_like(one), where=~alike)
    if not np.isfinite(gap).all():
        return Deviation(name, allowed, largest=math.inf, why="numbers that were infinite or NaN became finite")
    same = rows = 0
    if one.ndim and one.shape[-1] > 1 and one.size:
        first = one.argmax(-1) == other.argmax(-1)
        same, rows = int(np.count_nonzero(first)), int(first.size)
    finite = one[np.isfinite(one)]
    noise, signal = float(np.sum(gap**2)), float(np.sum(finite**2))
    largest, peak = (float(np.abs(each).max(initial=0)) for each in (gap, finite))
    return Deviation(name, allowed, noise, signal, largest, peak, same, rows)

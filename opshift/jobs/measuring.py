"""What other element types cost: the ranges of values, and how far outputs move when each value is rounded.

Both are seen by running: the source with all its values as outputs, and the result in float32 with a cast to its types
and back behind each value. Where outputs move further than allowed, the parts that move them most keep their types.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from opshift.passes import progress
from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, default_domain
from opshift.passes.model.types import tensor_type
from opshift.passes.records import dataclass, replace
from opshift.passes.types.door import FORMATS, Range, Seen, Types, as_floats, change, rounded, simulated
from opshift.verification import isolation
from opshift.verification.engines import EngineError, OnnxRuntime
from opshift.verification.feeding import inputs as feeding
from opshift.verification.feeding.asked import Asked
from opshift.verification.side import Side

T = TensorProto

MOST = 1 << 30
"""Bytes of weights up to which a model is run without being asked to."""
_SECONDS = 600
_PARTS = 8
"""Into how many parts nodes are divided, to see which of them moves the outputs."""
_PIECES = 4
"""Into how many pieces a part is divided, of which not all has to keep its type."""
_GOAL = 0.8
"""The noise that is left, as a part of what is allowed: that of parts adds up in squares."""
_FAR = 1e8
"""Noise beyond which it does not matter how much there is."""
_MOST_RUNS = 60
"""Forms of a model that are run at most, to find what has to keep its type."""
_CHOICES = 0.01
"""The share of decisions that may fall otherwise when what is decided on is rounded."""
_OTHER_INPUTS = 7919
"""Added to the seed: outputs are compared on other inputs than ranges were seen on."""
_SAMPLE = 1024
"""Elements that are looked at first, to see whether all are integers."""
_CHOOSING = frozenset(
    [
        *("ArgMax", "ArgMin", "TopK", "NonMaxSuppression", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("Equal", "Round", "Floor", "Ceil", "QuantizeLinear", "Hardmax"),
    ]
)
_STEPPING = ("QuantizeLinear", "Round", "Floor", "Ceil")
"""The operators that round to steps, which are as far apart as numbers of bfloat16: outputs tell what that costs."""


@dataclass(frozen=True)
class Deviation:
    """How far an output moves by other element types.

    Attributes:
        output: its name.
        error: the root mean square of the difference, over that of the output; of integers the share that differs.
        allowed: how large that may be.
        largest: the largest difference of an element.
        decibels: the ratio of signal to noise.
        first: the share of rows in which the same element is the largest; None where there are no rows.
        why: what cannot be compared.
    """

    output: str
    error: float
    allowed: float
    largest: float = 0.0
    decibels: float = math.inf
    first: float | None = None
    why: str = ""

    @property
    def holds(self) -> bool:
        """Whether it moves as far as it may at most."""
        return self.error <= self.allowed

    def worse(self, other: Deviation) -> Deviation:
        """The larger of what was seen in two runs."""
        worst = self if self.error >= other.error or math.isnan(self.error) else other
        firsts = [each.first for each in (self, other) if each.first is not None]
        return replace(
            worst,
            largest=max(self.largest, other.largest),
            decibels=min(self.decibels, other.decibels),
            first=min(firsts) if firsts else None,
        )


@dataclass(frozen=True)
class Measured:
    """What was seen.

    Attributes:
        types: what is asked, with ranges, and with what has to keep its type.
        deviations: of each output of the result.
        runs: how many forms of the model were run.
        why: why nothing was seen.
    """

    types: Types
    deviations: tuple[Deviation, ...] = ()
    runs: int = 0
    why: str = ""

    @property
    def holds(self) -> bool:
        """Whether all outputs move as far as they may at most."""
        return all(each.holds for each in self.deviations)


def measure(side: Side, types: Types, wanted: Asked) -> Measured:
    """Run a model, see what its values are, and find what has to keep its type for the outputs to hold.

    It runs in a process of its own.
    """
    size = sum(map(tensor_data.nbytes, side.model.graph.initializer))
    if size > MOST and not (wanted.runs or wanted.sets):
        return Measured(types, why=f"{size >> 20} MB of weights; --runs 1 runs the model as well")
    try:
        return isolation.call(_measure, side, types, wanted)
    except isolation.Ended as ended:
        return Measured(types, why="it took too long" if ended.late else str(ended))
    except EngineError as error:
        return Measured(types, why=str(error))


def _measure(side: Side, types: Types, wanted: Asked) -> Measured:
    isolation.end_after(_SECONDS)
    names = _watched(side.model)
    session = _open(side, names)
    quietly = replace(wanted, save=None)
    progress.tell("see the ranges of values")
    seen, feeds = _look(side, session, names, types, quietly)
    types = replace(types, seen=seen)
    others = feeds if wanted.sets else _feeds(side, replace(quietly, seed=wanted.seed + _OTHER_INPUTS)) or feeds
    return _Settling(side, types, others).settle()


def compare(before: Side, after: Side, types: Types, wanted: Asked) -> Measured:
    """See how far outputs move where types become wider: both models run as they are."""
    try:
        return isolation.call(_compare, before, after, types, wanted)
    except isolation.Ended as ended:
        return Measured(types, why="it took too long" if ended.late else str(ended))
    except EngineError as error:
        return Measured(types, why=str(error))


def _compare(before: Side, after: Side, types: Types, wanted: Asked) -> Measured:
    isolation.end_after(_SECONDS)
    settling = _Settling(before, types, _feeds(before, wanted))
    return Measured(types, settling.moved(after, types), 1)


def _open(side: Side, names: Sequence[str]) -> Any:
    try:
        return side.open(more=names) if names else side.open()
    except EngineError:
        if not names:
            raise
        return side.open()


def _watched(model: ModelProto) -> list[str]:
    """The values of the main graph that may be numbers."""
    known = {value.name for value in model.graph.output}
    made = [
        name
        for node in model.graph.node
        if default_domain(node.domain) or node.op_type not in ("Constant", "Shape", "Size")
        for name in node.output
        if name
    ]
    return [name for name in dict.fromkeys(made) if name not in known]


# --- ranges and choices ----------------------------------------------------------------------------------------------


def _look(
    side: Side, session: Any, names: Sequence[str], types: Types, wanted: Asked
) -> tuple[Seen, list[dict[str, Any]]]:
    """See the ranges of all values, and the choices that fall otherwise once what is chosen from is rounded."""
    ranges: dict[str, Range] = {}
    choices: dict[str, str] = {}
    feeds: list[dict[str, Any]] = []
    results = [value.name for value in side.model.graph.output]
    target = next(iter(types.mapping.values()))
    choosing = [node for node in _choosing(side.model) if target != T.BFLOAT16 or node.op_type not in _STEPPING]
    for fed in feeding.running(side, session.run, wanted):
        feeds.append(fed.given)
        values: dict[str, Any] = {**fed.given, **dict(zip(results, fed.outputs, strict=True))}
        with suppress(EngineError):
            held = session.values(fed.given, list(names)) if names else []
            values |= dict(zip(names, held, strict=True))
        for name, value in values.items():
            found = range_of(value, target)
            if found is not None:
                ranges[name] = widest(ranges[name], found) if name in ranges else found
        for node in choosing:
            why = _falls(side.model, node, values, target)
            if why and node.output[0] not in choices:
                choices[node.output[0]] = why
    return Seen(ranges, bool(wanted.sets), choices), feeds


def range_of(value: Any, target: int) -> Range | None:
    """The numbers in an array; None for what is no array of floats. `target` is the type that it may have."""
    import numpy as np

    if getattr(getattr(value, "dtype", None), "kind", "") != "f" or not value.size:
        return None
    size = np.abs(value)
    most, finite = float(size.max()), True
    if not math.isfinite(most):
        finite = False
        value = np.where(np.isfinite(value), value, 0)
        size = np.abs(value)
        most = float(size.max())
    some = value.reshape(-1)[:: max(value.size // _SAMPLE, 1)]
    whole = most > FORMATS[target].integers and bool(np.array_equal(some, np.rint(some)))
    whole = whole and bool(np.array_equal(value, np.rint(value)))
    whole = whole and not np.array_equal(as_floats(rounded(value, target), target), value)
    return Range(most, whole, finite)


def widest(one: Range, other: Range) -> Range:
    """What both ranges hold."""
    return Range(max(one.most, other.most), one.whole or other.whole, one.finite and other.finite)


def _choosing(model: ModelProto) -> Iterator[NodeProto]:
    for node in model.graph.node:
        if not default_domain(node.domain) and (node.op_type in _CHOOSING or _to_integer(node)):
            yield node


def _to_integer(node: NodeProto) -> bool:
    return node.op_type == "Cast" and any(a.name == "to" and a.i in (T.INT32, T.INT64) for a in node.attribute)


def _falls(model: ModelProto, node: NodeProto, values: Mapping[str, Any], target: int) -> str:
    """Why a node that decides has to read unrounded values; empty where it need not."""
    import numpy as np

    constants = _constants(model, node)
    given, changed = dict[str, Any](), dict[str, Any]()
    for name in filter(None, node.input):
        if name in constants:
            continue
        value = values.get(name)
        if value is None or not hasattr(value, "dtype"):
            return ""
        given[name] = changed[name] = value
        if value.dtype == np.float32:
            changed[name] = as_floats(rounded(value, target), target).astype(np.float32)
    if not any(given[name] is not changed[name] for name in given):
        return ""
    alone = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    alone.graph.name = "choice"
    alone.graph.node.add().CopyFrom(node)
    alone.graph.initializer.extend(constants.values())
    import onnx.helper

    for name, value in given.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        alone.graph.input.add(name=name, type=tensor_type(kind, [None] * value.ndim))
    for name in filter(None, node.output):
        alone.graph.output.add(name=name)
    try:
        session = OnnxRuntime(alone)
        before, after = session.run(given), session.run(changed)
    except EngineError:
        return ""
    share = max(map(_share, before, after), default=0.0)
    return f"{share:.1%} of its decisions change" if share > _CHOICES else ""


def _constants(model: ModelProto, node: NodeProto) -> dict[str, TensorProto]:
    """The constants that a node reads."""
    found = {tensor.name: tensor for tensor in model.graph.initializer if tensor.name in node.input}
    for other in model.graph.node:
        if other.op_type == "Constant" and other.output[0] in node.input and other.output[0] not in found:
            held = tensors.of_constant(other)
            if held is not None:
                found[other.output[0]] = TensorProto()
                found[other.output[0]].CopyFrom(held)
                found[other.output[0]].name = other.output[0]
    return found


def _share(before: Any, after: Any) -> float:
    """The share of decisions that differ; of numbers with fractions, nothing is said."""
    import numpy as np

    if before.dtype.kind == "f" and not np.array_equal(before, np.rint(before)):
        return 0.0
    if before.shape != after.shape:
        rows = [set(map(tuple, each.reshape(each.shape[0], -1).tolist())) for each in (before, after) if each.ndim]
        return len(rows[0] ^ rows[1]) / max(len(rows[0] | rows[1]), 1) if len(rows) == 2 else 1.0
    return float(np.mean(before != after)) if before.size else 0.0


# --- how far outputs move --------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Nodes by their first outputs, and the noise that they make alone: the square of what they move outputs by."""

    names: list[str]
    noise: float


class _Settling:
    """Finds what has to keep its type for the outputs of a model to stay where they are."""

    def __init__(self, side: Side, types: Types, feeds: list[dict[str, Any]]):
        self._side = side
        self._types = types
        self._feeds = feeds
        self._session = side.open()
        self._expected = [self._session.run(given) for given in feeds]
        self._names = [value.name for value in side.model.graph.output]
        self.runs = 0

    def settle(self) -> Measured:
        """Measure, and let the parts that move the outputs most keep their types until these hold."""
        found = self._deviations(self._types)
        if all(each.holds for each in found):
            return Measured(self._types, found, self.runs)
        made = self._outputs()
        parts = [_Part(names, self._alone(names, made)) for names in _divided(made, _PARTS)]
        noise = max(each.error / each.allowed for each in found) ** 2
        held: dict[str, str] = {}
        while parts and self.runs < _MOST_RUNS:
            whole = sum(min(part.noise, _FAR) for part in parts)
            excess = min(noise, _FAR) - _GOAL
            worst = max(parts, key=lambda part: min(part.noise, _FAR) / len(part.names))
            parts.remove(worst)
            share = min(worst.noise, _FAR) / whole if whole else 0.0
            if len(worst.names) > 2 and share * noise > 1.5 * excess and self.runs + _PIECES < _MOST_RUNS:
                parts += [_Part(names, self._alone(names, made)) for names in _divided(worst.names, _PIECES)]
                continue
            moved = math.sqrt(worst.noise)
            held |= {name: f"alone, it moves an output by {_shown(moved)}" for name in worst.names}
            noise -= share * noise
            left = sum(min(part.noise, _FAR) for part in parts)
            if noise > _GOAL and left > _GOAL:
                continue
            types = replace(self._types, held=held)
            found = self._deviations(types)
            if all(each.holds for each in found):
                return Measured(types, found, self.runs)
            noise = max(each.error / each.allowed for each in found) ** 2
        types = replace(self._types, held=held)
        return Measured(types, self._deviations(types), self.runs)

    def _outputs(self) -> list[str]:
        """The first outputs of the nodes that change, in the order of the model."""
        result = change(self._side.model, self._types, self._side.folder)
        named = {each.node for each in result.changes}
        firsts: list[str] = []
        for node in self._side.model.graph.node:
            first = next(filter(None, node.output), "")
            if (node.name or first) in named and first:
                firsts.append(first)
        return firsts

    def _alone(self, part: Sequence[str], made: Sequence[str]) -> float:
        """The square of how far outputs move where only a part changes, as a share of what is allowed."""
        changing = set(part)
        others = {name: "another part is measured" for name in made if name not in changing}
        progress.tell("see what moves the outputs", self.runs, _MOST_RUNS)
        found = self._deviations(replace(self._types, held=others))
        return max((each.error / each.allowed for each in found), default=0.0) ** 2

    def _deviations(self, types: Types) -> tuple[Deviation, ...]:
        self.runs += 1
        result = change(self._side.model, types, self._side.folder)
        if result.model is None or result.model is self._side.model:
            return tuple(Deviation(name, 0.0, types.budget(name)) for name in self._names)
        return self.moved(Side(simulated(result.model, self._side.folder), self._side.folder), types)

    def moved(self, after: Side, types: Types) -> tuple[Deviation, ...]:
        """How far the outputs of another model are from those of this one."""
        session = after.open()
        kinds = {value.name: value.type.tensor_type.elem_type for value in after.model.graph.input}
        found: dict[str, Deviation] = {}
        for given, expected in zip(self._feeds, self._expected, strict=True):
            actual = session.run(_fed(given, kinds))
            for name, one, other in zip(self._names, expected, actual, strict=True):
                seen = deviation(name, one, other, types.budget(name))
                found[name] = found[name].worse(seen) if name in found else seen
        return tuple(found.values())


def _shown(share: float) -> str:
    return "more than all that is allowed" if share > 10 else f"{share:.2f} of what is allowed"


def _divided(names: Sequence[str], count: int) -> list[list[str]]:
    """Names in so many parts, each of neighbours."""
    size = max(math.ceil(len(names) / count), 1)
    return [list(names[start : start + size]) for start in range(0, len(names), size)]


def _feeds(side: Side, wanted: Asked) -> list[dict[str, Any]]:
    with suppress(EngineError):
        session = side.open()
        return [fed.given for fed in feeding.running(side, session.run, wanted)]
    return []


def _fed(given: Mapping[str, Any], kinds: Mapping[str, int]) -> dict[str, Any]:
    """Inputs in the types that a model takes."""
    import numpy as np

    dtypes = {T.FLOAT: np.float32, T.DOUBLE: np.float64, T.FLOAT16: np.float16}
    return {
        name: value.astype(dtypes[kind])  # type: ignore[index]
        if (kind := kinds.get(name, 0)) in dtypes and getattr(getattr(value, "dtype", None), "kind", "") == "f"
        else value
        for name, value in given.items()
    }


def deviation(name: str, expected: Any, actual: Any, allowed: float) -> Deviation:
    """How far an output moved."""
    import numpy as np

    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        found = [deviation(name, one, other, allowed) for one, other in zip(expected, actual, strict=True)]
        worst = Deviation(name, 0.0, allowed)
        for each in found:
            worst = worst.worse(each)
        return worst
    if getattr(expected, "shape", None) != getattr(actual, "shape", ()):
        return Deviation(name, math.inf, allowed, math.inf, -math.inf, why="it has another shape")
    if expected.dtype.kind != "f":
        share = float(np.mean(expected != actual)) if expected.size else 0.0
        return Deviation(name, share, allowed, share)
    one, other = expected.astype(np.float64), actual.astype(np.float64)
    alike = (one == other) | (np.isnan(one) & np.isnan(other))
    if not np.isfinite(other[~alike]).all():
        return Deviation(name, math.inf, allowed, math.inf, -math.inf, why="numbers became infinite or NaN")
    gap = np.subtract(one, other, out=np.zeros_like(one), where=~alike)
    gap = np.where(np.isfinite(gap), gap, np.inf)
    finite = one[np.isfinite(one)]
    signal = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    noise = float(np.sqrt(np.mean(gap**2))) if gap.size else 0.0
    error = noise / signal if signal else (0.0 if not noise else math.inf)
    first = None
    if one.ndim and one.shape[-1] > 1 and one.size:
        first = float(np.mean(one.argmax(-1) == other.argmax(-1)))
    decibels = math.inf if not error else -20 * math.log10(error) if math.isfinite(error) else -math.inf
    return Deviation(name, error, allowed, float(np.abs(gap).max(initial=0.0)), decibels, first)

"""Draw inputs for a region: on, above and below each threshold at which its operators decide.

Values captured in a run of the model show how a region is used. Drawn values test what a run may not reach: ties,
saturation, equal maxima, zeros, small numbers alone, both branches. Both forms run on the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from opshift.passes.model import tensors
from opshift.passes.model.messages import GraphProto, ModelProto, TensorProto, normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.records import dataclass
from opshift.verification import trees
from opshift.verification.bounds import is_float

Array = Any
Feeds = Mapping[str, Any]
Watch = Callable[[int, Sequence[str], Feeds], Mapping[str, Any]]
"""Runs the part of the first (0) or second (1) model; returns inner values by name, or raises `EngineError`."""

_ON_LINES = "values around thresholds"
ORDINARY, FAR, SPECIAL = "ordinary", "far", "special"
WHOLE_TABLES = "whole tables"
"""The label of draws that read a table to its end, as a user's longer input would."""
ROWS = "different rows"
TINY = "tiny numbers"


@dataclass(frozen=True)
class Draw:
    """Inputs for both parts of a region.

    Attributes:
        label: what is tried, for the report.
        feeds: the values, by input.
        how: `ordinary`; `far` larger than captured values; `special` numbers, such as NaN.
    """

    label: str
    feeds: dict[str, Any]
    how: str = ORDINARY


def draw(
    parts: Sequence[ModelProto],
    base: Feeds,
    weights: Sequence[Feeds],
    free: Sequence[str],
    watch: Watch,
    seed: int,
    resized: frozenset[str] = frozenset(),
    *,
    special: bool = True,
) -> Iterator[Draw]:
    """Draw inputs for a region; those that find most errors come first.

    Args:
        parts: the two models of the region, without types of inputs.
        base: captured values of all inputs; drawn values have their types, shapes and magnitude.
        weights: the constants that each part takes as inputs.
        free: the inputs that may be varied; constants and shapes may not.
        watch: runs a part and returns inner values.
        seed: the seed of the draws.
        resized: the inputs whose size may vary, as it did in the runs.
        special: whether to draw infinities and NaN, too.
    """
    rng = np.random.default_rng(seed)
    places = _find_inputs_used_as_places(parts)
    quantizing = [node for part in parts for node in part.graph.node if node.op_type in _QUANTIZING]
    steps = {node.input[1] for node in quantizing if node.op_type == "QuantizeLinear"}
    steps.update(name for node in quantizing for name in node.input[2:])  # float8 has a zero point of 0
    floats = [name for name in free if is_float(base[name]) and base[name].size and name not in steps]
    whole = [name for name in free if name not in places and _kind(base[name]) in "iu" and base[name].size]
    truths = [name for name in free if _kind(base[name]) == "b" and base[name].size]
    indices = [name for name in free if name in places and _kind(base[name]) in "iu" and base[name].size > 1]

    def vary(of_float: Callable[[Array], Array], of_whole: Callable[[Array], Array] | None = None) -> dict[str, Any]:
        """Make values for all free inputs: floats by one function, integers by another, booleans at random."""
        drawn = {name: of_float(base[name]).astype(base[name].dtype) for name in floats}
        drawn |= {name: (of_whole or _shuffle)(base[name]) for name in whole}
        drawn |= {name: rng.random(base[name].shape) < 0.5 for name in truths}
        drawn = {name: np.asarray(value) for name, value in drawn.items()}  # of a scalar, numpy makes no array
        return {**base, **drawn, **{name: _shuffle(base[name]) for name in indices}}

    def _shuffle(value: Array) -> Array:
        return rng.permutation(value.reshape(-1)).reshape(value.shape)

    def normal(value: Array) -> Array:
        drawn: Array = rng.standard_normal(value.shape, np.float64 if value.dtype == np.float64 else np.float32)
        return drawn * _magnitude(value)

    def in_range(value: Array) -> Array:
        """Draw integers between the least and the largest captured one; for int8 and uint8, from the whole range."""
        low, high = (int(end) for end in (value.min(), value.max()))
        if value.dtype.itemsize == 1:
            low, high = (int(end) for end in (np.iinfo(value.dtype).min, np.iinfo(value.dtype).max))
        return rng.integers(low, high, value.shape, endpoint=True).astype(value.dtype)

    for label, feeds in _draw_indices(parts, base, weights, free, watch, resized):
        yield Draw(label, feeds)
    yield from _draw_rows_of_trees(parts, base, floats, resized, rng)
    yield from _draw_boxes(parts[0], base, floats, resized, rng)
    if not (floats or whole or truths or indices):
        return
    with np.errstate(all="ignore"):
        yield Draw("random numbers", vary(normal, in_range))
        lines = sorted(set(chain.from_iterable(map(_find_thresholds, parts, weights))))
        integers = _list_integers(parts, weights)
        turns = max(_count_turns(base, floats, 5 * len(lines)), _count_turns(base, whole, 3 * len(integers)))
        for turn in range(turns):
            on_lines = (partial(_put_on_lines, lines=held, turn=turn) for held in (lines, integers))
            yield Draw(_ON_LINES, vary(*on_lines))
        yield Draw("negative numbers", vary(lambda v: -np.abs(normal(v)), _negate))
        if floats:
            yield Draw(TINY, vary(lambda v: normal(v) * 2.0**-13))
        if truths:
            for truth in (False, True):
                yield Draw(f"all {truth}", {**vary(normal), **{n: np.full_like(base[n], truth) for n in truths}})
        yield Draw("zeros", vary(np.zeros_like, lambda value: value))
        if floats:
            yield Draw("large numbers", vary(lambda v: normal(v) * (2.0**10 if v.itemsize > 2 else 16), in_range), FAR)
            for turn in range(2 if special else 0):
                mixed = vary(partial(_draw_special, turn=turn, rng=rng))
                yield Draw("infinities, NaN and denormals", mixed, SPECIAL)
        if whole:
            yield Draw("the ends of integer types", vary(normal, lambda v: _ends(v, rng)), FAR)


@dataclass(frozen=True)
class _Lookup:
    """A node that looks up rows of a table, or keys.

    Attributes:
        free: the inputs of the region that the index is computed from.
        size: the number of rows.
        rows: the rows; None without a table, as for OneHot.
        keys: integers that the node knows, in place of rows.
        offset: this number is added to an input to compute the index.
    """

    free: tuple[str, ...]
    size: int = 0
    rows: Array | None = None
    keys: tuple[int, ...] = ()
    offset: int = 0

    def differing(self, others: Sequence[_Lookup]) -> Sequence[int]:
        """List the rows that differ from a table of the same shape in the other part; all rows if there is none."""
        own = self.rows
        tables = [other.rows for other in others if other.rows is not None]
        alike = [] if own is None else [rows for rows in tables if rows.shape == own.shape]
        if not alike:
            return self.keys or range(self.size)
        return sorted({int(row) for rows in alike for row in np.flatnonzero(np.any(rows != own, axis=1))})


_QUANTIZING = ("QuantizeLinear", "DequantizeLinear")
_LOOKUPS = {"ArrayFeatureExtractor": 1, "Gather": 1, "GatherND": 1, "OneHot": 0}
"""Operators that look something up, and the place of the input with the index."""
_INDEXED = frozenset([*_LOOKUPS, "GatherElements", "Scatter", "ScatterElements", "ScatterND"])
"""Operators that read indices, which may be drawn, unlike sizes."""
_KEYS = ("keys_int64s", "cats_int64s", "int64_vocabulary")


def _draw_indices(
    parts: Sequence[ModelProto],
    base: Feeds,
    weights: Sequence[Feeds],
    free: Sequence[str],
    watch: Watch,
    resized: frozenset[str],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Draw indices for regions that look something up: rows that differ between the parts, first and last rows."""
    for node in parts[0].graph.node:
        if node.op_type == "Slice" and len(node.input) > 2 and node.input[2] in free and base[node.input[2]].size:
            table = weights[0].get(node.input[0], base.get(node.input[0]))
            if table is not None and table.ndim:
                axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
                yield WHOLE_TABLES, {**base, node.input[2]: np.full_like(base[node.input[2]], table.shape[axis])}
    sizes = _find_inputs_used_as_places(parts, _INDEXED)
    free = [name for name in free if name not in sizes]
    lookups = [list(_find_lookups(part, base, weights[which], free, watch, which)) for which, part in enumerate(parts)]
    for lookup in lookups[0]:
        for name in lookup.free if lookup.size else ():
            for label, ends in (("at both ends", [0, lookup.size - 1]), ("counted from the end", [-1, -lookup.size])):
                yield f"rows {label}", {**base, name: _fill_with(base[name], [row - lookup.offset for row in ends])}
    for lookup, others in [*((one, lookups[1]) for one in lookups[0]), *((one, lookups[0]) for one in lookups[1])]:
        rows = [row - lookup.offset for row in lookup.differing(others)]
        for name in lookup.free:
            # floats from which an index is computed are features: their number is fixed
            is_longer = name in resized and _kind(base[name]) in "iu"
            for value in (base[name], _lengthen_index(base[name], rows)) if is_longer else (base[name],):
                for start in range(0, min(len(rows), 8 * value.size), value.size):
                    yield ROWS, {**base, name: _fill_with(value, rows[start : start + value.size])}


def _find_lookups(
    part: ModelProto, base: Feeds, weights: Feeds, free: Sequence[str], watch: Watch, which: int
) -> Iterator[_Lookup]:
    """Find the nodes of a part that look something up by an index that is computed from free inputs."""
    origins = {name: {name} for name in free if base[name].size and _kind(base[name]) in "iuf"}
    lookups = []
    for node in part.graph.node:
        reached = set().union(*(origins.get(name, ()) for name in node.input))
        for name in node.output if node.op_type not in ("Shape", "Size") else ():
            origins[name] = reached
        place = _LOOKUPS.get(node.op_type)
        place = 0 if any(attribute.name in _KEYS for attribute in node.attribute) else place
        if place is not None and origins.get(node.input[place]):
            lookups.append((node, node.input[place]))
    constants = {tensor.name: tensors.array(tensor) for tensor in part.graph.initializer} | dict(weights)
    names = [node.input[1 if node.op_type == "OneHot" else 0] for node, _ in lookups]
    unknown = [
        name for name in (*names, *(index for _, index in lookups)) if name not in constants and name not in base
    ]
    with suppress(RuntimeError):
        constants |= watch(which, list(dict.fromkeys(unknown)), base) if unknown else {}
    constants = {**base, **constants}
    for (node, index), table in zip(lookups, names, strict=True):
        chosen, value, offset = tuple(sorted(origins[index])), constants.get(table), 0
        keys = [list(attribute.ints) for attribute in node.attribute if attribute.name in _KEYS]
        if len(chosen) == 1 and index in constants and constants[index].size == base[chosen[0]].size:
            apart = np.unique(constants[index].reshape(-1) - base[chosen[0]].reshape(-1))
            offset = int(apart[0]) if len(apart) == 1 else 0
        if keys:
            yield _Lookup(chosen, keys=(*keys[0], max(keys[0], default=0) + 1))
        elif value is None:
            continue
        elif node.op_type == "OneHot" and value.size == 1:
            yield _Lookup(chosen, int(value.item()), offset=offset)
        elif value.ndim and node.op_type != "OneHot":
            last = -1 if node.op_type == "ArrayFeatureExtractor" else 0
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), last)
            rows = np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1)
            yield _Lookup(chosen, len(rows), rows, offset=offset)


_LONG = 4096
"""The most rows that one index array reads."""


def _lengthen_index(value: Array, rows: Sequence[int]) -> Array:
    """Make an index array with as many elements as rows to try, along its largest axis."""
    shape = [1] * value.ndim
    if shape:
        shape[int(np.argmax(value.shape))] = max(1, min(len(rows), _LONG))
    return np.zeros(shape, value.dtype)


def _draw_rows_of_trees(
    parts: Sequence[ModelProto], base: Feeds, floats: Sequence[str], resized: frozenset[str], rng: np.random.Generator
) -> Iterator[Draw]:
    """Draw rows on and beside the thresholds of a region's tree ensembles."""
    for node in (node for part in parts for node in part.graph.node if trees.is_tree_ensemble(node)):
        name = node.input[0]
        if name not in floats or base[name].ndim != 2 or base[name].dtype.name not in ("float32", "float64"):
            continue
        rows = trees.draw_rows(node, base[name].shape[1], base[name].dtype.type, rng)
        is_batch = resized == {name}
        count = len(rows) if is_batch else len(base[name])
        rows = rows[: _MOST_TURNS * count]
        for start in range(0, len(rows), max(count, 1)):
            some = rows[start : start + count]
            fed = some if is_batch else np.resize(some, base[name].shape)
            yield Draw("rows of thresholds", {**base, name: fed})


def _draw_boxes(
    part: ModelProto, base: Feeds, floats: Sequence[str], resized: frozenset[str], rng: np.random.Generator
) -> Iterator[Draw]:
    """Draw boxes and scores for a region's NonMaxSuppression: boxes that overlap, so that it drops some."""
    for node in part.graph.node:
        if node.op_type == "NonMaxSuppression" and node.input[0] in floats and node.input[1] in floats:
            boxes, scores = (base[name] for name in node.input[:2])
            for count in (_BOXES, boxes.shape[1]) if resized.issuperset(node.input[:2]) else (boxes.shape[1],):
                corners = rng.random((len(boxes), count, 2))
                drawn = np.concatenate([corners, corners + 0.1 + 0.4 * rng.random(corners.shape)], axis=2)
                rates = rng.random((*scores.shape[:2], count))
                names = zip(node.input[:2], (drawn, rates), strict=True)
                yield Draw("boxes that overlap", {**base, **{n: v.astype(base[n].dtype) for n, v in names}})


_BOXES = 128


def _fill_with(value: Array, numbers: Sequence[int]) -> Array:
    return np.resize(np.array(numbers), value.shape).astype(value.dtype)


def _kind(value: Any) -> str:
    return str(getattr(getattr(value, "dtype", None), "kind", "O"))


def _magnitude(value: Array) -> float:
    """Compute the spread of captured values; 1 if there are none. Drawn numbers have this spread."""
    finite = value[np.isfinite(value)].astype(np.float64)
    spread = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
    return spread if 0 < spread < 1e6 else 1.0


def _negate(value: Array) -> Array:
    return -value if value.dtype.kind == "i" else value


def _draw_special(value: Array, turn: int, rng: np.random.Generator) -> Array:
    """Make an array of NaN, infinities, zeros and subnormal numbers, in a random order.

    Runs if special numbers may reach the region.
    """
    info = np.finfo(np.float32 if value.dtype.itemsize > 2 else np.float16)
    # apart, as a sum of both overflows, or not, by the order in which a kernel adds
    ends = [float(info.max)] if turn else [np.inf, -np.inf]
    numbers = [np.nan, *ends, -0.0, 1.0, float(info.smallest_subnormal), -1.0, 0.0]
    return rng.permutation(np.resize(numbers, value.size)).reshape(value.shape)


def _ends(value: Array, rng: np.random.Generator) -> Array:
    info = np.iinfo(value.dtype)
    return rng.choice(np.array([info.min, info.max, 1, info.max - 1], value.dtype), value.shape)


def _list_integers(parts: Sequence[ModelProto], weights: Sequence[Feeds]) -> list[int]:
    """List the integers in small constants of a region: inputs may be compared with them."""
    small = (tensor for part in parts for tensor in part.graph.initializer if tensors.size(tensor) <= 8)
    constants: list[Any] = [tensors.array(tensor) for tensor in small]
    constants += [value for fed in weights for value in fed.values() if getattr(value, "size", 9) <= 8]
    integers = {int(number) for value in constants if _kind(value) in "iu" for number in value.reshape(-1)}
    return sorted({0, 1, *(number for number in integers if abs(number) < 1 << 16)})


def _count_turns(base: Feeds, names: Sequence[str], count: int) -> int:
    """Count the draws that it takes until each of `count` numbers was tried, within a limit.

    Limits the draws of a region.
    """
    smallest = min((base[name].size for name in names), default=0)
    return min(_MOST_TURNS, -(-count // smallest)) if smallest else 0


_MOST_TURNS = 12


def _put_on_lines(value: Array, lines: Sequence[float], turn: int) -> Array:
    """Put elements on each threshold, and just above and below it. Used for one draw of several."""
    with np.errstate(all="ignore"):
        if value.dtype.kind in "iu":
            info = np.iinfo(value.dtype)
            exact = np.array([line for line in lines if info.min < line < info.max], value.dtype)
            places = np.concatenate([exact, exact + 1, exact - 1])
        elif value.dtype.isbuiltin != 1:
            places = np.array(lines, value.dtype)
        else:
            exact = np.array(lines, value.dtype)
            up, down = (np.nextafter(exact, value.dtype.type(end)) for end in (np.inf, -np.inf))
            if value.dtype.itemsize > 2:  # on denormal numbers, and products of these, a Conv takes 20 times as long
                beside = np.sqrt(np.finfo(value.dtype).tiny)
                up, down = np.where(exact == 0, beside, up), np.where(exact == 0, -beside, down)
            places = np.concatenate([exact, up, down, exact * 2, -exact])
    return np.resize(np.roll(places, -turn * value.size), value.size).reshape(value.shape)


# --- where operators decide -----------------------------------------------------------------------------------

_PLACES = {
    "CenterCropPad": {1}, "Compress": {1}, "ConstantOfShape": {0}, "DFT": {1, 2}, "Expand": {1}, "Gather": {1},
    "GatherElements": {1}, "GatherND": {1}, "Loop": {0}, "MaxUnpool": {1, 2}, "NonMaxSuppression": {2},
    "OneHot": {0, 1},
    "Pad": {1, 3}, "Range": {0, 1, 2}, "Reshape": {1}, "Resize": {1, 2, 3}, "RoiAlign": {2}, "ScatterElements": {1},
    "ScatterND": {1}, "Slice": {1, 2, 3, 4}, "Split": {1}, "Squeeze": {1}, "STFT": {1, 3}, "Tile": {1}, "TopK": {1},
    "Trilu": {1}, "Unsqueeze": {1}, "Upsample": {1}, "ReverseSequence": {1}, "GRU": {4}, "LSTM": {4}, "RNN": {4},
    "Scatter": {1}, "SequenceAt": {1}, "SplitToSequence": {1}, "CumSum": {1}, "ReduceSum": {1},
}  # fmt: skip
"""Inputs that are indices, counts or sizes: with other numbers, a run may fail."""


def _find_inputs_used_as_places(parts: Sequence[ModelProto], without: Collection[str] = ()) -> set[str]:
    """Find inputs that shapes, indices or counts are computed from, except by operators in `without`.

    Such inputs are only shuffled: other numbers might be invalid.
    """
    used: set[str] = set()
    for part in parts:
        for body in bodies(part):
            for node in reversed(body.node):
                is_known = not normalize_domain(node.domain) and node.op_type not in without
                taken = _PLACES.get(node.op_type, set()) if is_known else set()
                if node.op_type.startswith("Reduce"):
                    taken = {1}
                used.update(name for k, name in enumerate(node.input) if k in taken)
                if node.op_type not in ("Shape", "Size") and used.intersection(node.output):
                    used.update(node.input)
    return used


_UNDECIDED = ("epsilon", "momentum", "p", "spatial_scale", "extrapolation_value", "cubic_coeff_a")


_TIES = (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -2.0, -1.0, 0.0, 1.0, 2.0)
_STEPS = (126.5, 127.0, 127.5, 128.5, -127.5, -128.0, -128.5, 254.5, 255.5, 300.0, -300.0)
_FACTORS = 8
"""Constants of a region by which its inputs may be multiplied or divided before they are rounded."""


def _find_thresholds(model: ModelProto, weights: Feeds) -> Iterator[float]:
    """List thresholds at which operators of a region may change what they compute.

    Rounding of scaled inputs, as in QuantizeLinear, has thresholds at halves and whole numbers of the scale.
    """
    yield from (0.0, 0.5, 1.0, 1.5, 2.5)
    ops, factors = set[str](), [value for value in weights.values() if is_float(value)]
    for body in bodies(model):
        constants = (
            [tensor for tensor in body.initializer if 0 < tensors.size(tensor) <= 64]
            if isinstance(body, GraphProto)
            else []
        )
        constants += [
            t for node in body.node if node.op_type == "Constant" and (t := tensors.of_constant(node)) is not None
        ]
        for tensor in constants:
            values = tensors.array(tensor) if tensor.data_type in (TensorProto.FLOAT, TensorProto.DOUBLE) else None
            if values is not None:
                factors.append(values)
                yield from (float(v) for v in values.reshape(-1)[:16] if np.isfinite(v) and abs(v) < 1e30)
        for node in body.node:
            ops.add(node.op_type)
            for attribute in node.attribute:
                if attribute.HasField("f") and attribute.name not in _UNDECIDED and abs(attribute.f) < 1e30:
                    yield from (attribute.f, -attribute.f)
    for factor in sorted({abs(float(v)) for values in factors for v in values.reshape(-1)[:_FACTORS]})[:_FACTORS]:
        if not ops.isdisjoint(_ROUNDING) and 1e-9 < factor < 1e9:
            yield from (line for tie in _TIES for line in (tie * factor, tie / factor))
            yield from (step * factor for step in _STEPS if "QuantizeLinear" in ops)


_ROUNDING = frozenset(["Cast", "Ceil", "Floor", "QuantizeLinear", "Round"])

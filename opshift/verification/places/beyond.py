"""Both forms beyond the lines that no run crossed: given numbers that they would have there, by force."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from opshift.passes import progress
from opshift.passes.model import tensors
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass, field, replace
from opshift.verification import interfaces
from opshift.verification.engines import EngineError, Feeds
from opshift.verification.places import levels
from opshift.verification.places.lines import constants, upwards
from opshift.verification.places.pieces import Pieces
from opshift.verification.places.ranges import ANY, Ranges
from opshift.verification.places.unreached import Spot, within
from opshift.verification.side import Side
from opshift.verification.turns import Turns

if TYPE_CHECKING:
    from opshift.verification.judge import Pair

_TURNS = 3  # of a Loop
_SMALL = 2  # bytes of integers that are numbers; larger ones are places and sizes more often
_MOST = 1 << 26  # bytes of values that are replaced


@dataclass(frozen=True)
class Forced:
    """Both forms with other numbers: what they are given, and yield; no pair where not both have what it reads."""

    spots: Sequence[Spot]
    pair: Pair | None = None
    given: Feeds = field(default_factory=dict)
    expected: Sequence[Any] = ()
    actual: Sequence[Any] = ()


def forced(held: Held, pair: Pair, found: Sequence[Spot], given: Feeds, turns: Turns) -> Iterator[Forced]:
    """Both forms beyond the lines that no run crossed: all at once, or, where that does not run, one by one."""
    from opshift.verification.judge import Pair

    progress.tell("run what no inputs led to")
    able = held.able(found, pair, given, turns)
    left = [spot for spot in found if spot.value not in able]
    pending = [list(able.values())] if able else []
    while pending:
        some = pending.pop()
        try:
            sides, feeds = held.sides(some)
            judged = Pair(sides[0], sides[1], pair.grade, shown=pair.shown, beside=pair)
            expected = sides[0].open().run(feeds)
            actual = sides[1].open().run(interfaces.as_second(feeds, pair.cast))
        except EngineError:
            if len(some) > 1:
                pending += [some[: len(some) // 2], some[len(some) // 2 :]]
            else:
                left += some
            continue
        yield Forced(some, judged, feeds, expected, actual)
    if left:
        yield Forced(left)


class Held:
    """Two forms whose values can be replaced."""

    def __init__(self, before: Side, after: Side):
        self._sides, self._pieces = (before, after), (Pieces(before.model), Pieces(after.model))
        self._constants = constants(before.model.graph)
        self._ranges = Ranges(before.model)
        self._shared = set.intersection(*({*pieces.makers, *pieces.given} for pieces in self._pieces))
        self._given: Feeds = {}
        self._values: dict[str, Any] = {}

    def shown(self, found: Sequence[Spot]) -> tuple[list[str], list[str]]:
        """The values of either form that are to be known where these are replaced, or what they are moved from."""
        named = dict.fromkeys(name for spot in found for at in self._upwards(spot) for name in self._replaced(at))
        made = [name for name in named if name in self._shared and name in self._pieces[0].makers]
        beside = {at for spot in found for how, at in spot.levels if how == "beside"}
        return [*made, *sorted(beside & self._pieces[0].makers.keys() - {*made})], made

    def able(self, found: Sequence[Spot], pair: Pair, given: Feeds, turns: Turns) -> dict[str, Spot]:
        """Those whose values both forms have, with what hangs on them, and agree about, by the name of that value.

        Where one is not such a value, what it is computed from by adding to it and scaling it may be.
        """
        ways = {spot.value: [at for at in self._upwards(spot) if self._can(at)] for spot in found}
        shown = self.shown([at for way in ways.values() for at in way])
        feeds = given, interfaces.as_second(given, pair.cast)
        try:
            runs = [turns.values(which, shown[which], feeds[which]) for which in range(2)]
        except EngineError:
            return {}
        self._given, self._values = given, {**given, **runs[0]}
        beside = {at for spot in found for how, at in spot.levels if how == "beside"}
        held = {**constants(self._sides[1].model.graph), **self._constants} if beside else {}
        self._values |= {name: tensors.array(held[name]) for name in beside & held.keys()}
        alike = {name for name in shown[1] if _agree(pair, *(run[name] for run in runs))}
        alike |= {name for way in ways.values() for at in way for name in self._replaced(at)} - {*shown[1]}
        first = {
            name: next((at for at in way if alike.issuperset(self._replaced(at))), None) for name, way in ways.items()
        }
        return {name: at for name, at in first.items() if at is not None}

    def _upwards(self, spot: Spot) -> Iterator[Spot]:
        """The value, and those that it is an affine function of, with the numbers that they would have to have."""
        yield spot
        held, name, wanted = self._constants, spot.value, spot.pieces
        while spot.turns is None and not spot.levels and name in self._pieces[0].makers:
            node = self._pieces[0].nodes[self._pieces[0].makers[name]]
            found = upwards(node, held)
            if found is None:
                return
            name, back = found
            wanted = {(min(ends), max(ends)) for ends in (tuple(map(back, piece)) for piece in wanted)}
            possible = within(wanted, self._ranges.of(name) or ANY)
            if possible:
                yield replace(spot, value=name, wanted=possible, between=set(), limits=ANY)

    def _can(self, spot: Spot) -> bool:
        names = self._replaced(spot)
        if not names or not self._shared.issuperset(names):
            return False
        if spot.turns is None and not spot.levels and self._ranges.of(spot.value) is None:
            return False
        return all(len({frozenset(self._hanging(pieces, name)) for pieces in self._pieces}) == 1 for name in names)

    def _replaced(self, spot: Spot) -> list[str]:
        if spot.turns is None:
            return [spot.value]
        node = self._pieces[0].nodes[self._pieces[0].makers[spot.value]]
        return [name for name in node.input[:2] if name and name not in self._pieces[0].held]

    def _hanging(self, pieces: Pieces, name: str) -> set[str]:
        """The values of both forms that hang on one in a form."""
        found, pending = set[str](), [name]
        while pending:
            for index in pieces.readers(pending.pop()):
                made = [n for n in pieces.nodes[index].output if n and n not in found]
                found.update(made)
                pending += made
        return found & self._shared

    def sides(self, some: Sequence[Spot]) -> tuple[list[Side], dict[str, Any]]:
        """Both forms with other values, and these; raises `EngineError`."""
        import numpy as np

        random, values = np.random.default_rng(0), dict[str, Any]()
        for spot in some:
            for name in self._replaced(spot):
                value = self._values[name]
                if value.nbytes > _MOST:
                    raise EngineError("it is too large")
                values[name] = self._other(value, spot, random)
        sides = [replace(side, model=_cut(side.model, values)) for side in self._sides]
        return sides, {**self._given, **values}

    def _other(self, value: Any, spot: Spot, random: Any) -> Any:
        if spot.turns is not None:
            return _turning(value)
        if not spot.levels:
            return _stretched(value, spot, random)
        try:
            return levels.levelled(value, spot.levels, self._values)
        except (LookupError, ValueError):
            raise EngineError("what it is compared with does not fit it") from None


def _agree(pair: Pair, one: Any, other: Any) -> bool:
    kinds = [(getattr(value, "shape", None), getattr(value, "dtype", None)) for value in (one, other)]
    return kinds[0] == kinds[1] and None not in kinds[0] and not pair.parted(one, other)


def _turning(value: Any) -> Any:
    import numpy as np

    return np.full_like(value, True if value.dtype == bool else max(_TURNS, int(value.reshape(-1)[:1].sum())))


def _stretched(value: Any, spot: Spot, random: Any) -> Any:
    """The value, of which every other element is a number that no run had."""
    import numpy as np

    if value.dtype.kind in "iu" and value.dtype.itemsize > _SMALL:
        raise EngineError("places and sizes are not replaced")
    flat = value.copy().reshape(-1)
    wanted = sorted(spot.pieces)
    ends = [end for piece in wanted for end in piece if math.isfinite(end)]
    span = max([1.0, *(abs(end) / 4 for end in ends)])
    for number, (low, high) in enumerate(wanted):
        count = len(flat[number :: len(wanted) + 1])
        if math.isfinite(low) and math.isfinite(high):
            drawn = random.uniform(low, high, count)
        else:
            away = span * (0.1 + np.abs(random.standard_normal(count)))
            drawn = low + away if math.isfinite(low) else high - away
        if value.dtype == bool:
            drawn = drawn > 0.5
        elif value.dtype.kind in "iu":
            drawn = np.clip(np.rint(drawn), np.iinfo(value.dtype).min, np.iinfo(value.dtype).max)
        elif value.dtype.kind == "f":
            drawn = np.clip(drawn, np.finfo(value.dtype).min, np.finfo(value.dtype).max)
        flat[number :: len(wanted) + 1] = drawn.astype(value.dtype)
    return flat.reshape(value.shape)


def _cut(model: ModelProto, values: Feeds) -> ModelProto:
    """A copy that takes these values, whatever makes them, as inputs, and yields what it would have made as well."""
    from onnx.helper import np_dtype_to_tensor_dtype

    copy = ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    made = [name for node in graph.node for name in node.output if name in values]
    for node in graph.node:
        node.output[:] = [f"{name}/computed" if name in values else name for name in node.output]
    for held in (graph.output, graph.value_info):
        for index in reversed(range(len(held))):
            if held[index].name in values:
                del held[index]
    for name in made:
        value, kind = values[name], graph.input.add(name=name).type.tensor_type
        kind.elem_type = np_dtype_to_tensor_dtype(value.dtype)
        for size in value.shape:
            kind.shape.dim.add().dim_value = size
        kind.shape.SetInParent()
    for name in sorted(made):
        graph.output.add(name=f"{name}/computed")
    return copy

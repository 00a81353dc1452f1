"""Looks for inputs that a model takes, led by what the engine says where it cannot go on."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from opshift.passes.model.messages import ModelProto, TensorProto, TypeProto
from opshift.passes.model.types import is_fixed, symbol
from opshift.passes.records import dataclass, replace
from opshift.passes.specialization.interface import tensor
from opshift.verification.engines import EngineError, OnnxRuntime, Reference
from opshift.verification.feeding import filling
from opshift.verification.feeding.filling import Choice
from opshift.verification.feeding.meanings import INTEGERS
from opshift.verification.feeding.stops import Stop, Surroundings, before, crossings, marked, names, stop
from opshift.verification.side import Side

if TYPE_CHECKING:
    from opshift.verification.feeding.asked import Asked
    from opshift.verification.feeding.meanings import Meanings

TYPICAL = (1, 2, 3, 8, 16, 32, 64, 128, 224, 256, 512, 640)
RATES = (16000, 8000)  # of sound, where no constant tells
_TRIES = 300
_BETTER = 30  # tries for a choice on which no output is empty, once there is one
_SECONDS = 20.0
_MOST = 1 << 21  # elements of an input
Run = Callable[[dict[str, Any]], list[Any]]
_FEW = 8  # elements of an input whose numbers are looked for
_SAID = 12  # numbers of an engine, and of a node


@dataclass(frozen=True)
class Problem:
    """A model whose inputs are looked for."""

    model: ModelProto
    taken: Mapping[str, TypeProto]
    meanings: Meanings
    wanted: Asked

    def draw(self, choice: Choice, most: int = filling.MOST) -> dict[str, Any]:
        """The inputs that a choice stands for, with those that were given in their place."""
        return filling.draw(self.taken, self.meanings, self.wanted, choice, most)

    def open_dims(self) -> dict[str, list[tuple[str, int]]]:
        """Where each size that can be chosen occurs: inputs and axes by symbol, or by place."""
        found: dict[str, list[tuple[str, int]]] = {}
        for name, kind in self.taken.items():
            for axis, dim in enumerate(() if name in self.wanted.shapes else tensor(kind).shape.dim):
                if not is_fixed(dim) and symbol(dim) not in self.wanted.sizes:
                    found.setdefault(symbol(dim) or filling.place(name, axis), []).append((name, axis))
        return found

    def numbers(self) -> list[str]:
        """The inputs of few numbers, which may be lengths, rates, or what else a model does not take any value of."""
        return [
            name
            for name, kind in self.taken.items()
            if kind.WhichOneof("value") == "tensor_type"
            and kind.tensor_type.elem_type != TensorProto.STRING
            and self.wanted.range_of(name) is None
            and name not in self.wanted.values
            and (kind.tensor_type.elem_type in INTEGERS or len(kind.tensor_type.shape.dim) < 2)
            and math.prod(dim.dim_value for dim in kind.tensor_type.shape.dim if is_fixed(dim)) <= _FEW
        ]


@dataclass(frozen=True)
class _State:
    """A choice that was tried, by how far it went."""

    rank: tuple[tuple[int, ...], int]
    choice: Choice
    stop: Stop

    def __lt__(self, other: _State) -> bool:
        return self.rank < other.rank


class Search:
    """Best first: from the choice that went farthest, one step at a time."""

    def __init__(
        self,
        problem: Problem,
        side: Side,
        log: str = "",
        deadly: Container[int] = (),
        run: Run | None = None,
        tries: int = _TRIES,
    ):
        """`log` is the file that is told the number of each try before it, `deadly` the tries that end the process.

        `run` is what a session does that is open already: it is enough where nodes have names that tell them apart.
        Where there are fewer `tries` than a search takes, only what fits well is found.
        """
        self._problem, self._side, self._log, self._deadly = problem, side, log, deadly
        self._named = names(side.model) if run is not None and side.engine is OnnxRuntime else None
        self._model = side.model if self._named else marked(side.model)
        self._run = run if run is not None and self._named else self._opened(self._model)
        self._parts: dict[int, Run | None] = {}
        self._around = Surroundings(problem.model, as_written=side.engine is Reference)
        self._dims, self._fillable = problem.open_dims(), problem.numbers()
        self._told: dict[tuple[Any, ...], Stop | None] = {}
        self._left = self._most = tries
        self._empty: Choice | None = None
        self._until = perf_counter() + _SECONDS

    def find(self, first: Choice) -> Choice | None:
        """A choice that the model runs on; None where none was found in reasonable time."""
        order = count()
        begun = self._tell(first)
        if begun is None:
            return first
        states = [_State((self._rank(begun), next(order)), first, begun)]
        while states and not self._over():
            state = heapq.heappop(states)
            for choice in self._next(state):
                if self._over():
                    break
                tried = len(self._told)
                found = self._tell(choice)
                if found is None:
                    return choice
                if len(self._told) == tried:
                    continue
                heapq.heappush(states, _State((self._rank(found), next(order)), choice, found))
                if self._rank(found) < state.rank[0]:  # from where it went farther, first
                    heapq.heappush(states, state)
                    break
        return self._empty if self._most == _TRIES else None

    def _rank(self, stopped: Stop) -> tuple[int, ...]:
        """The less, the farther a run went."""
        return tuple(-place for place in self._around.progress(stopped.reached)) or (1,)

    def _over(self) -> bool:
        return len(self._told) >= self._left or perf_counter() > self._until

    def _tell(self, choice: Choice) -> Stop | None:
        """Where a run on a choice stops; None where it does not."""
        key = (choice.size, *sorted(choice.sizes.items()), "", *sorted(choice.fills.items()), choice.fallback)
        if key not in self._told:
            self._told[key] = self._stop(choice) if self._is_survived(len(self._told)) else Stop(-1, (), "the end")
        return self._told[key]

    def _is_survived(self, number: int) -> bool:
        if self._log:
            Path(self._log).write_text(str(number), encoding="ascii")
        return number not in self._deadly

    def _stop(self, choice: Choice) -> Stop | None:
        try:
            given = self._problem.draw(choice, _MOST)
        except EngineError as error:
            return stop(error, self._named)
        try:
            outputs = self._run(given)
        except EngineError as error:
            found = stop(error, self._named)
            return found if found.numbers else replace(found, numbers=self._sizes(found.reached, given))
        if all(getattr(value, "size", 1) for value in outputs):
            return None
        self._empty = self._empty or choice
        self._left = min(self._left, len(self._told) + _BETTER)
        return Stop(-1, (), "an output is empty")

    def _opened(self, model: ModelProto) -> Run:
        return replace(self._side, model=model).open().run

    def _sizes(self, number: int, given: dict[str, Any]) -> tuple[int, ...]:
        """The sizes of what a node is given, where the engine says nothing of them."""
        if number not in self._parts:
            part = before(self._model, number)
            try:
                self._parts[number] = None if part is None else self._opened(part)
            except EngineError:
                self._parts[number] = None
        run = self._parts[number]
        try:
            values = [] if run is None else run(given)
        except EngineError:
            return ()
        return tuple(size for value in values for size in getattr(value, "shape", ())) + self._around.held(number)

    def _next(self, state: _State) -> Iterator[Choice]:
        """The choices next to one, the likeliest first; each is a step of one size, of several, or of a number."""
        causes = self._around.causes(state.stop.reached, self._problem.taken)
        dims = [dim for dim, places in self._dims.items() if any(name in causes for name, _ in places)]
        dims.sort(key=lambda dim: not any(axis for _, axis in self._dims[dim]))  # those of batches last
        later = [dim for dim in dims if any(axis for _, axis in self._dims[dim])] or dims
        fills = [name for name in self._fillable if name in causes]
        said = [n for n in dict.fromkeys(state.stop.numbers) if 0 < n <= 1 << 16][:_SAID]
        held = self._around.numbers(state.stop.reached)[:_SAID]
        beside = [d.dim_value for name in causes for d in tensor(self._problem.taken[name]).shape.dim][:_SAID]
        near = [n for n in dict.fromkeys([*said, *held, *sorted(beside), *(n + 1 for n in said)]) if n > 1]
        square = tuple(dim for dim in dims if all(self._is_spatial(*place) for place in self._dims[dim]))
        for together in dict.fromkeys([square, *((dim,) for dim in dims)]):
            yield from self._meeting(state, together)
        for name in fills:
            for number in self._problem.meanings.compared.get(name, ()):
                yield _filled(state.choice, name, number)
        for number in near:
            for dim in dims:
                yield _sized(state.choice, [dim], number)
            yield _sized(state.choice, later, number)
        for name in fills:
            for number in (1, 0, *said, *(n - 1 for n in said), *RATES, *TYPICAL):
                yield _filled(state.choice, name, number)
        for number in dict.fromkeys([*TYPICAL[3:], *self._around.written[:_SAID], *TYPICAL[:3]]):
            yield _sized(state.choice, later, number)
            for dim in dims:
                yield _sized(state.choice, [dim], number)
            yield _sized(state.choice, dims, number)

    def _is_spatial(self, name: str, axis: int) -> bool:
        """Whether an axis is one of an image's, which are changed together."""
        return axis > 1 and len(tensor(self._problem.taken[name]).shape.dim) > 3

    def _meeting(self, state: _State, dims: Sequence[str]) -> Iterator[Choice]:
        """Sizes at which what the engine complains of would meet what it asks for."""
        if not dims:
            return
        now = state.choice.sizes.get(dims[0], state.choice.size)
        for other in (2 * now, 64, 512):
            step = _sized(state.choice, dims, other)
            found = self._tell(step)
            if found is None:
                yield step
                return
            for size in crossings(now, state.stop, other, found, len(dims)):
                yield _sized(state.choice, dims, size)


def _sized(choice: Choice, dims: Sequence[str], size: int) -> Choice:
    return replace(choice, sizes={**choice.sizes, **dict.fromkeys(dims, size)})


def _filled(choice: Choice, name: str, number: float) -> Choice:
    return replace(choice, fills={**choice.fills, name: number})

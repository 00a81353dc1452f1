"""Looks for inputs that a model takes, led by what the engine says where it cannot go on."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any

from opshift.passes.model.messages import ModelProto, TensorProto, TypeProto
from opshift.verification import feeds, values
from opshift.verification.engines import EngineError
from opshift.verification.meanings import INTEGERS
from opshift.verification.stops import Stop, Surroundings, crossings, stop
from opshift.verification.values import Choice

if TYPE_CHECKING:
    from opshift.verification.asked import Asked
    from opshift.verification.meanings import Meanings

TYPICAL = (1, 2, 3, 8, 16, 32, 64, 128, 224, 256, 512, 640)
RATES = (16000, 8000)  # of sound, where no constant tells
_TRIES = 300
_SECONDS = 20.0
_MOST = 1 << 23  # elements of an input
_FEW = 8  # elements of an input whose numbers are looked for
_SAID = 12  # numbers of an engine, and of a node


@dataclass(frozen=True)
class Problem:
    """A model whose inputs are looked for."""

    model: ModelProto
    taken: Mapping[str, TypeProto]
    meanings: Meanings
    wanted: Asked

    def draw(self, choice: Choice, most: int = values.MOST) -> dict[str, Any]:
        """The inputs that a choice stands for, with those that were given in their place."""
        return values.draw(self.taken, self.meanings, self.wanted, choice, most)

    def open_dims(self) -> dict[str, list[tuple[str, int]]]:
        """Where each size that can be chosen occurs: inputs and axes by symbol, or by place."""
        found: dict[str, list[tuple[str, int]]] = {}
        for name, kind in self.taken.items():
            for axis, dim in enumerate(() if name in self.wanted.shapes else feeds.tensor(kind).shape.dim):
                if not feeds.is_fixed(dim) and dim.dim_param not in self.wanted.sizes:
                    found.setdefault(dim.dim_param or values.place(name, axis), []).append((name, axis))
        return found

    def numbers(self) -> list[str]:
        """The inputs of few numbers, which may be lengths, rates, or what else a model does not take any value of."""
        return [
            name
            for name, kind in self.taken.items()
            if kind.WhichOneof("value") == "tensor_type"
            and kind.tensor_type.elem_type != TensorProto.STRING
            and self.wanted.range_of(name) is None
            and (kind.tensor_type.elem_type in INTEGERS or len(kind.tensor_type.shape.dim) < 2)
            and math.prod(dim.dim_value for dim in kind.tensor_type.shape.dim if feeds.is_fixed(dim)) <= _FEW
        ]


@dataclass(order=True)
class _State:
    """A choice that was tried, by how far it went."""

    rank: tuple[tuple[int, ...], int]
    choice: Choice = field(compare=False)
    stop: Stop = field(compare=False)


class Search:
    """Best first: from the choice that went farthest, one step at a time."""

    def __init__(self, problem: Problem, run: Callable[[dict[str, Any]], Any]):
        self._problem, self._run = problem, run
        self._around = Surroundings(problem.model)
        self._dims, self._fillable = problem.open_dims(), problem.numbers()
        self._told: dict[tuple[Any, ...], Stop | None] = {}
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
        return None

    def _rank(self, stopped: Stop) -> tuple[int, ...]:
        """The less, the farther a run went."""
        return tuple(-place for place in self._around.progress(stopped.reached)) or (1,)

    def _over(self) -> bool:
        return len(self._told) >= _TRIES or perf_counter() > self._until

    def _tell(self, choice: Choice) -> Stop | None:
        """Where a run on a choice stops; None where it does not."""
        key = (choice.size, *sorted(choice.sizes.items()), "", *sorted(choice.fills.items()), choice.fallback)
        if key not in self._told:
            self._told[key] = self._stop(choice)
        return self._told[key]

    def _stop(self, choice: Choice) -> Stop | None:
        try:
            self._run(self._problem.draw(choice, _MOST))
        except EngineError as error:
            return stop(error)
        return None

    def _next(self, state: _State) -> Iterator[Choice]:
        """The choices next to one, the likeliest first; each is a step of one size, of several, or of a number."""
        causes = self._around.causes(state.stop.reached, self._problem.taken)
        dims = [dim for dim, places in self._dims.items() if any(name in causes for name, _ in places)]
        dims.sort(key=lambda dim: not any(axis for _, axis in self._dims[dim]))  # those of batches last
        later = [dim for dim in dims if any(axis for _, axis in self._dims[dim])] or dims
        fills = [name for name in self._fillable if name in causes]
        said = [n for n in dict.fromkeys(state.stop.numbers) if 0 < n <= 1 << 16][:_SAID]
        held = self._around.numbers(state.stop.reached)[:_SAID]
        near = list(dict.fromkeys([*said, *held, *(n + 1 for n in said)]))
        for dim in dims:
            yield from self._meeting(state, dim)
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

    def _meeting(self, state: _State, dim: str) -> Iterator[Choice]:
        """Sizes at which what the engine complains of would meet what it asks for, if it grows evenly."""
        now = state.choice.sizes.get(dim, state.choice.size)
        for other in (2 * now, 64, 512):
            step = _sized(state.choice, [dim], other)
            found = self._tell(step)
            if found is None:
                yield step
                return
            for size in crossings(now, state.stop, other, found):
                yield _sized(state.choice, [dim], size)


def _sized(choice: Choice, dims: list[str], size: int) -> Choice:
    return replace(choice, sizes={**choice.sizes, **dict.fromkeys(dims, size)})


def _filled(choice: Choice, name: str, number: float) -> Choice:
    return replace(choice, fills={**choice.fills, name: number})

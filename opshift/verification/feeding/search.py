"""Search for inputs that a model runs on, led by the errors of the engine."""

from __future__ import annotations

import heapq
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from opshift.passes.inputs.interface import tensor
from opshift.passes.inputs.sizes import terms
from opshift.passes.model.messages import ModelProto, TensorProto, TypeProto
from opshift.passes.model.types import is_fixed, symbol
from opshift.passes.records import dataclass, replace
from opshift.verification.engines import EngineError
from opshift.verification.feeding import filling
from opshift.verification.feeding.filling import Choice
from opshift.verification.feeding.meanings import INTEGERS, constants
from opshift.verification.feeding.sizes import place
from opshift.verification.feeding.stops import LARGEST, Stop, causes, crossings, name_nodes_by_number, stop
from opshift.verification.feeding.windows import infer_shapes
from opshift.verification.side import Side

if TYPE_CHECKING:
    from opshift.verification.feeding.asked import Asked
    from opshift.verification.feeding.meanings import Meanings

_NUMBERS = (1, 0, 16000, 8000)  # of small inputs: flags, and rates of sound
_SIZES = (8, 16, 32, 64, 128, 224, 256, 512, 640, 1, 2, 3)
_TRIES = 300
_BETTER = 30  # tries for a choice on which no output is empty, once there is one
_SECONDS = 20.0
_MOST = 1 << 21  # elements of an input
_FEW = 8  # elements of an input whose numbers are looked for
_SAID = 12  # numbers of an engine


@dataclass(frozen=True)
class Problem:
    """A model, and what is known of its inputs."""

    model: ModelProto
    taken: Mapping[str, TypeProto]
    meanings: Meanings
    wanted: Asked

    def draw(self, choice: Choice, most: int = filling.MOST) -> dict[str, Any]:
        """Draw the inputs of a choice; those that the user gave stay."""
        return filling.draw(self.taken, self.meanings, self.wanted, choice, most)

    def open_dims(self) -> dict[str, list[tuple[str, int]]]:
        """Find the inputs and axes of each size that can be chosen, by symbol or by place.

        Their sizes are what a search changes.
        """
        places: dict[str, list[tuple[str, int]]] = {}
        for name, value_type in self.taken.items():
            for axis, dim in enumerate(() if name in self.wanted.shapes else tensor(value_type).shape.dim):
                key = symbol(dim) or place(name, axis)
                if not is_fixed(dim) and key not in self.wanted.sizes:
                    places.setdefault(key, []).append((name, axis))
        return places

    def free_dims(self) -> dict[str, list[tuple[str, int]]]:
        """Leave out dimensions that follow from others, as `past + 1`."""
        return {dim: places for dim, places in self.open_dims().items() if terms(dim) is None}

    def shape_of(self, name: str, sizes: Mapping[str, int]) -> list[int]:
        """Compute the shape of an input from the sizes of dimensions."""
        return filling.shape_of(name, self.taken[name], self.wanted, Choice(sizes=sizes))

    def numbers(self) -> list[str]:
        """Find inputs of few numbers: a model may run on some lengths or rates only."""
        return [
            name
            for name, value_type in self.taken.items()
            if value_type.WhichOneof("value") == "tensor_type"
            and value_type.tensor_type.elem_type != TensorProto.STRING
            and self.wanted.range_of(name) is None
            and name not in self.wanted.values
            and (value_type.tensor_type.elem_type in INTEGERS or len(value_type.tensor_type.shape.dim) < 2)
            and math.prod(dim.dim_value for dim in value_type.tensor_type.shape.dim if is_fixed(dim)) <= _FEW
        ]


class Search:
    """Best first: from the choice that went farthest, one step at a time."""

    def __init__(self, problem: Problem, side: Side, log: str = "", deadly: Container[int] = ()):
        """Write the number of each try to the file `log`, and leave out `deadly` ones, which end the process."""
        self._problem, self._side, self._log, self._deadly = problem, side, log, deadly
        self._run = replace(side, model=name_nodes_by_number(side.model)).open().run
        self._causes, self._held = causes(problem.model, problem.taken), constants(problem.model)
        self._dims, self._fillable = problem.open_dims(), problem.numbers()
        self._told: dict[tuple[Any, ...], Stop | None] = {}
        self._left = _TRIES
        self._empty: Choice | None = None
        self._until = perf_counter() + _SECONDS

    def find(self, first: Choice) -> Choice | None:
        """Find a choice that the model runs on; None where time or tries are over."""
        order = count()
        begun = self._find_stop(first)
        if begun is None:
            return first
        states = [(-begun.reached, next(order), first, begun)]
        while states and not self._over():
            state = heapq.heappop(states)
            for choice in self._list_next_choices(state[2], state[3]):
                if self._over():
                    break
                tried = len(self._told)
                stopped = self._find_stop(choice)
                if stopped is None:
                    return choice
                if len(self._told) == tried:
                    continue
                heapq.heappush(states, (-stopped.reached, next(order), choice, stopped))
                if -stopped.reached < state[0]:  # from where it went farther, first
                    heapq.heappush(states, state)
                    break
        return self._empty

    def _over(self) -> bool:
        return len(self._told) >= self._left or perf_counter() > self._until

    def _find_stop(self, choice: Choice) -> Stop | None:
        """Find where a run with this choice stops; None if it runs to the end. Each choice is run once."""
        key = (*sorted(choice.sizes.items()), "", *sorted(choice.fills.items()))
        if key not in self._told:
            number = len(self._told)
            if self._log:
                Path(self._log).write_text(str(number), encoding="ascii")
            self._told[key] = Stop(-1, (), "the end") if number in self._deadly else self._run_choice(choice)
        return self._told[key]

    def _run_choice(self, choice: Choice) -> Stop | None:
        """Run the model with a choice; returns where it failed, or that an output is empty; None if it runs well."""
        try:
            outputs = self._run(self._problem.draw(choice, _MOST))
        except EngineError as error:
            stopped = stop(error)
            return stopped if stopped.numbers else replace(stopped, numbers=self._sizes(stopped.reached, choice))
        if all(getattr(value, "size", 1) for value in outputs):
            return None
        self._empty = self._empty or choice
        self._left = min(self._left, len(self._told) + _BETTER)
        return Stop(-1, (), "an output is empty")

    def _sizes(self, number: int, choice: Choice) -> tuple[int, ...]:
        """Infer the sizes of a node's inputs, for errors that name none. Runs when the engine's error has no
        numbers.
        """
        if not 0 <= number < len(self._causes):
            return ()
        shapes = {name: self._problem.shape_of(name, choice.sizes) for name in self._problem.taken}
        names = list(self._problem.model.graph.node[number].input)
        known = infer_shapes(self._problem.model, self._side.folder, shapes, names)
        known_dims = [list(self._held[name].dims) for name in names if name in self._held]
        return tuple(size for shape in (*known.values(), *known_dims) for size in shape if isinstance(size, int))

    def _list_next_choices(self, choice: Choice, stopped: Stop) -> Iterator[Choice]:
        """Yield the choices next to one, the likeliest first, in which sizes or a number differ."""
        number, taken = stopped.reached, self._problem.taken
        behind = (self._causes[number] if 0 <= number < len(self._causes) else ()) or taken
        dims = [dim for dim, places in self._dims.items() if any(name in behind for name, _ in places)]
        dims.sort(key=lambda dim: not any(axis for _, axis in self._dims[dim]))  # those of batches last
        later = [dim for dim in dims if any(axis for _, axis in self._dims[dim])] or dims
        fills = [name for name in self._fillable if name in behind]
        said = [n for n in dict.fromkeys(stopped.numbers) if 0 < n <= LARGEST][:_SAID]
        beside = [d.dim_value for name in taken if name in behind for d in tensor(taken[name]).shape.dim][:_SAID]
        near = [n for n in dict.fromkeys([*said, *sorted(beside), *(n + 1 for n in said)]) if n > 1]
        square = tuple(dim for dim in dims if all(self._is_spatial(*place) for place in self._dims[dim]))
        for together in dict.fromkeys([square, *((dim,) for dim in dims)]):
            yield from self._extrapolate_sizes(choice, stopped, together)
        for name in fills:
            for number in self._problem.meanings.compared.get(name, ()):
                yield _with_fill(choice, name, number)
        for number in near:
            for dim in dims:
                yield _with_sizes(choice, [dim], number)
            yield _with_sizes(choice, later, number)
        for name in fills:
            for number in (*_NUMBERS, *said, *(n - 1 for n in said), *_SIZES):
                yield _with_fill(choice, name, number)
        for number in _SIZES:
            yield _with_sizes(choice, later, number)
            for dim in dims:
                yield _with_sizes(choice, [dim], number)
            yield _with_sizes(choice, dims, number)

    def _is_spatial(self, name: str, axis: int) -> bool:
        """Tell whether an axis is one of an image's, which are changed together."""
        return axis > 1 and len(tensor(self._problem.taken[name]).shape.dim) > 3

    def _extrapolate_sizes(self, choice: Choice, stopped: Stop, dims: Sequence[str]) -> Iterator[Choice]:
        """Try two sizes, and extrapolate to sizes at which the numbers of the errors would meet.

        One of the ways to the next choice.
        """
        if not dims:
            return
        now = choice.sizes.get(dims[0], choice.size)
        for other in (2 * now, 64, 512):
            step = _with_sizes(choice, dims, other)
            stopped_there = self._find_stop(step)
            if stopped_there is None:
                yield step
                return
            for size in crossings(now, stopped, other, stopped_there, len(dims)):
                yield _with_sizes(choice, dims, size)


def _with_sizes(choice: Choice, dims: Sequence[str], size: int) -> Choice:
    return replace(choice, sizes={**choice.sizes, **dict.fromkeys(dims, size)})


def _with_fill(choice: Choice, name: str, number: float) -> Choice:
    return replace(choice, fills={**choice.fills, name: number})

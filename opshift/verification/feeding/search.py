"""Search for inputs that a model runs on, led by the numbers in the errors of the engine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from opshift.passes.inputs.interface import tensor
from opshift.passes.inputs.sizes import terms
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model.traversal import with_nested
from opshift.passes.model.types import is_fixed, symbol
from opshift.passes.records import dataclass, replace
from opshift.verification.engines import EngineError, Feeds, NeverRuns
from opshift.verification.feeding import filling
from opshift.verification.feeding.filling import Choice
from opshift.verification.feeding.meanings import INTEGERS, constants
from opshift.verification.feeding.sizes import place
from opshift.verification.feeding.windows import infer_shapes

if TYPE_CHECKING:
    from opshift.verification.feeding.asked import Asked
    from opshift.verification.feeding.meanings import Meanings

Run = Callable[[Feeds], list[Any]]

_NUMBERS = (1, 0, 16000, 8000)  # of small inputs: flags, and rates of sound
_SIZES = (8, 16, 32, 64, 128, 224, 256, 512, 640, 1, 2, 3)
_TRIES = 300
_BETTER = 30  # tries for a choice on which no output is empty, once there is one
_SECONDS = 20.0
_MOST = 1 << 21  # elements of an input
_FEW = 8  # elements of an input whose numbers are looked for
_SAID = 12  # numbers of an engine
_LARGEST = 1 << 16  # a number that may be a size
_MARK = re.compile(r"~(\d+)~")
_NOISE = re.compile(r"^.*Status Message:|\S+\.(?:h|cc|cpp):\d+|~\d+~|\b(?:u?int|float|axis|dimension|operand) ?\d+\b")
_NUMBER = re.compile(r"(?<![\w.])\d{1,7}(?![\w.])")


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
        """List the open dimensions that do not follow from others, as `past + 1` does."""
        return {dim: places for dim, places in self.open_dims().items() if terms(dim) is None}

    def shape_of(self, name: str, sizes: Mapping[str, int]) -> list[int]:
        """Compute the shape of an input from the sizes of dimensions."""
        return filling.shape_of(name, self.taken[name], self.wanted, Choice(sizes=sizes))

    def numbers(self) -> list[str]:
        """List inputs of few numbers, such as lengths or sampling rates; a model may run on some values only."""
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


@dataclass(frozen=True)
class _Stop:
    """Where a run failed: the number of the node (-1 if unknown), and the numbers in the error message."""

    reached: int = -1
    numbers: tuple[int, ...] = ()


def name_nodes_by_number(model: ModelProto) -> ModelProto:
    """Copy a model, and name its nodes by number: the error message of an engine then tells which node fails."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for number, node in enumerate(node for graph in with_nested([copy.graph]) for node in graph.node):
        node.name = f"~{number}~"
    return copy


class Search:
    """Changes one size or number after the other, starting each time from the choice whose run reached farthest."""

    def __init__(self, problem: Problem, run: Run, folder: str | None = None):
        """`run` runs the model with its nodes named by number; `folder` holds its weights."""
        self._problem, self._run, self._folder = problem, run, folder
        self._dims, self._fillable = problem.open_dims(), problem.numbers()
        self._constants = constants(problem.model)
        self._stops = dict[tuple[Any, ...], _Stop | None]()
        self._left = _TRIES
        self._empty: Choice | None = None
        self._why = ""

    def find(self, first: Choice) -> Choice | None:
        """Find a choice that the model runs on; None if time or tries are over.

        Raises:
            NeverRuns: the model fails at the same node in the same way, whatever sizes are tried.
        """
        until = perf_counter() + _SECONDS
        best, farthest = first, self._find_stop(first)
        while farthest is not None:
            for choice in self._list_next_choices(best, farthest):
                if len(self._stops) >= self._left or perf_counter() > until:
                    return self._empty
                stopped = self._find_stop(choice)
                if stopped is None:
                    return choice
                if self._is_stuck(stopped):
                    raise NeverRuns(f"found no inputs that the first model accepts, at any size: {self._why}")
                if stopped.reached > farthest.reached:
                    best, farthest = choice, stopped
                    break
            else:
                return self._empty
        return best

    def _is_stuck(self, stopped: _Stop) -> bool:
        """Tell whether each dimension was tried at several sizes, and all runs failed alike: no size changes that."""
        is_tried = len(self._stops) > 3 * len(self._dims) + 3
        run = {stop for stop in self._stops.values() if stop is None or stop.reached >= 0}  # others were too large
        return is_tried and not self._fillable and bool(stopped.numbers) and run == {stopped}

    def _find_stop(self, choice: Choice) -> _Stop | None:
        """Find where a run with this choice stops; None if it runs to the end. Each choice is run once."""
        key = (*sorted(choice.sizes.items()), "", *sorted(choice.fills.items()))
        if key not in self._stops:
            self._stops[key] = self._run_choice(choice)
        return self._stops[key]

    def _run_choice(self, choice: Choice) -> _Stop | None:
        """Run the model with a choice; returns where it failed, or that an output is empty; None if it runs well."""
        try:
            outputs = self._run(self._problem.draw(choice, _MOST))
        except EngineError as error:
            words = " ".join(str(error.__context__ or error).split())  # the whole text of the engine
            self._why = _MARK.sub("", str(error))
            marks = _MARK.findall(words)
            reached = int(marks[-1]) if marks else -1
            numbers = [int(number) for number in _NUMBER.findall(_NOISE.sub("", words))]
            if not numbers and 0 <= reached < len(self._problem.model.graph.node):  # as for a MatMul
                numbers = self._infer_sizes(self._problem.model.graph.node[reached], choice)
            return _Stop(reached, tuple(numbers))
        if all(getattr(value, "size", 1) for value in outputs):
            return None
        self._empty = self._empty or choice
        self._left = min(self._left, len(self._stops) + _BETTER)
        return _Stop()

    def _infer_sizes(self, node: NodeProto, choice: Choice) -> list[int]:
        """Infer the sizes of a node's inputs, for errors that name none."""
        shapes = {name: self._problem.shape_of(name, choice.sizes) for name in self._problem.taken}
        known = infer_shapes(self._problem.model, self._folder, shapes, node.input)
        held = [self._constants[name].dims for name in node.input if name in self._constants]
        return [size for shape in (*known.values(), *held) for size in shape if isinstance(size, int)]

    def _list_next_choices(self, choice: Choice, stopped: _Stop) -> Iterator[Choice]:
        """Yield choices that differ from `choice` in some sizes or in a number; the likeliest come first.

        Numbers to try come from the error message, constants that an input is compared with, and usual sizes.
        """
        taken, fills = self._problem.taken, self._fillable
        dims = sorted(self._dims, key=lambda dim: not any(axis for _, axis in self._dims[dim]))  # batches last
        later = [dim for dim in dims if any(axis for _, axis in self._dims[dim])] or dims
        reported = [n for n in dict.fromkeys(stopped.numbers) if 0 < n <= _LARGEST][:_SAID]
        declared = [dim.dim_value for value_type in taken.values() for dim in tensor(value_type).shape.dim][:_SAID]
        near = [n for n in dict.fromkeys([*reported, *sorted(declared), *(n + 1 for n in reported)]) if n > 1]
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
            for number in (*_NUMBERS, *reported, *(n - 1 for n in reported), *_SIZES):
                yield _with_fill(choice, name, number)
        for number in _SIZES:
            for together in dict.fromkeys([tuple(later), *((dim,) for dim in dims), tuple(dims)]):
                yield _with_sizes(choice, together, number)

    def _is_spatial(self, name: str, axis: int) -> bool:
        """Tell whether an axis is the height or width of an image; these are changed together."""
        return axis > 1 and len(tensor(self._problem.taken[name]).shape.dim) > 3

    def _extrapolate_sizes(self, choice: Choice, stopped: _Stop, dims: Sequence[str]) -> Iterator[Choice]:
        """Run other sizes, and compute from the error messages at which size a growing number reaches a constant one.

        Example: the model needs 196 patches; 64 pixels give 16, and 128 pixels give 64, so 224 pixels give 196.
        """
        if not dims:
            return
        size = choice.sizes.get(dims[0], choice.size)
        for other in (2 * size, 64, 512):
            step = _with_sizes(choice, dims, other)
            there = self._find_stop(step)
            if there is None:
                yield step
                return
            if there.reached != stopped.reached or len(there.numbers) != len(stopped.numbers) or size == other:
                continue
            pairs = list(zip(stopped.numbers, there.numbers, strict=True))
            met = []
            for a, b in ((a, b) for a, b in pairs if a != b):
                for fixed in (x for x, y in pairs if x == y and x > 1):  # by 1, everything is broadcast
                    if len(dims) > 1 and b > 0:
                        length = other * math.sqrt(fixed / b)
                        met += [math.ceil(length), *(round(length / whole) * whole for whole in (32, 16, 8, 4))]
                    crossing = math.ceil(size + (fixed - a) * (other - size) / (b - a))
                    met += [crossing, crossing + 1]
            for number in dict.fromkeys(number for number in met if 1 < number <= _LARGEST):
                yield _with_sizes(choice, dims, number)


def _with_sizes(choice: Choice, dims: Iterable[str], size: int) -> Choice:
    return replace(choice, sizes={**choice.sizes, **dict.fromkeys(dims, size)})


def _with_fill(choice: Choice, name: str, number: float) -> Choice:
    return replace(choice, fills={**choice.fills, name: number})

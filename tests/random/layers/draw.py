"""`Draw`: a network on its way, and what its layers may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FLOATS, INTEGERS = ("float32",), ("int32", "int64")


class Unfit(Exception):
    """No value fits, or what was drawn does not."""


class Draw:
    """A network on its way: what has been made, and what it is fed."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.parameters: list[Any] = []
        self.feeds: list[Any] = []
        self.made: list[Any] = []
        self.layers = 0

    # --- numbers

    def one(self, of: Sequence[Any]) -> Any:
        return of[int(self.rng.integers(len(of)))]

    def number(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def numbers(self, count: int, low: int, high: int) -> list[int]:
        return [self.number(low, high) for _ in range(count)]

    def chance(self, of: float = 0.5) -> bool:
        return bool(self.rng.random() < of)

    def size(self) -> int:
        return self.one((0, 1, 1, 2, 2, 3, 3, 4, 5, 6)) if self.chance(0.3) else self.number(1, 5)

    def count(self, most: int) -> int:
        """Of what comes in any number: mostly from one on."""
        return 0 if self.chance(0.06) else self.number(1, most)

    def array(self, shape: Sequence[int], kind: str = "float32") -> Any:
        """Halves from -3 to 3, small integers, or booleans."""
        if kind == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        low = 0 if kind.startswith("u") else -6
        found = self.rng.integers(low, 7, shape)
        return (found / 2).astype(kind) if kind.startswith("float") else found.astype(kind)

    def axis(self, rank: int) -> int:
        if not rank:
            raise Unfit
        return self.number(-rank, rank - 1)

    def axes(self, rank: int, least: int = 0) -> list[int]:
        if rank < least:
            raise Unfit
        held = self.rng.permutation(rank)[: self.number(least, rank)]
        return [int(axis) - (rank if self.chance(0.4) else 0) for axis in held]

    # --- values

    def parameter(self, array: Any) -> Any:
        from openvino import opset13

        array = np.asarray(array)
        made = opset13.parameter(list(array.shape), array.dtype)
        self.parameters.append(made)
        self.feeds.append(array)
        return made.output(0)

    def constant(self, array: Any, kind: str | None = None) -> Any:
        from openvino import opset13

        return opset13.constant(np.asarray(array, kind)).output(0)

    def given(self, array: Any, kind: str | None = None, run_time: float = 0.12) -> Any:
        """What a layer takes besides its data: mostly a constant."""
        held = np.asarray(array, kind)
        return self.parameter(held) if self.chance(run_time) else self.constant(held)

    def whole(self, array: Any, run_time: float = 0.12) -> Any:
        """Integers of one of both widths."""
        return self.given(array, self.one(INTEGERS), run_time)

    def value(
        self,
        rank: int | Sequence[int] | None = None,
        kinds: Sequence[str] = FLOATS,
        fit: Callable[..., bool] | None = None,
    ) -> Any:
        """A value of a known shape: one that was made before, or a new input."""
        ranks = range(6) if rank is None else [rank] if isinstance(rank, int) else rank
        held = [
            value
            for value in self.made
            if value.get_partial_shape().is_static
            and len(value.get_shape()) in ranks
            and value.get_element_type().to_dtype().name in kinds
            and np.prod(value.get_shape()) < 5000
            and (fit is None or fit(list(value.get_shape())))
        ]
        if held and self.chance(0.75):
            return self.one(held)
        shape = [self.size() for _ in range(self.one(list(ranks)))]
        if fit is not None and not fit(shape):
            raise Unfit
        return self.parameter(self.array(shape, self.one(kinds)))

    def like(self, shape: Sequence[int], kind: str = "float32", run_time: float = 0.3) -> Any:
        return self.given(self.array(shape, kind), run_time=run_time)

    def any_value(self, kinds: Sequence[str] = FLOATS) -> Any:
        """A value that may have a shape that only the run tells."""
        held = [v for v in self.made if v.get_element_type().to_dtype().name in kinds]
        return self.one(held) if held and self.chance(0.4) else self.value(None, kinds)

    def make(self, version: int, kind: str, inputs: Sequence[Any], **attributes: Any) -> Any:
        from openvino.utils.node_factory import NodeFactory

        node = NodeFactory(f"opset{version}").create(kind, list(inputs), attributes)
        return node.outputs()


RECIPES: dict[str, Callable[[Draw], Any]] = {}


def recipe(function: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
    RECIPES[function.__name__] = function
    return function


def shape_of(value: Any) -> list[int]:
    return list(value.get_shape())


def kind_of(value: Any) -> str:
    return str(value.get_element_type().to_dtype().name)


def image(d: Draw, rank: int, channels: int | None = None) -> Any:
    c = channels or d.number(1, 4)
    return d.parameter(d.array([d.count(2), c, *d.numbers(rank, 1, 8)]))

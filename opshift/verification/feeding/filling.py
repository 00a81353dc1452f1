"""What an input of a type, a shape and a meaning is filled with: seeded numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opshift.passes.model.messages import TensorProto, TypeProto
from opshift.passes.model.types import is_fixed, symbol
from opshift.passes.records import dataclass, field
from opshift.passes.specialization.interface import tensor
from opshift.passes.specialization.sizes import computed, terms
from opshift.verification.engines import EngineError

if TYPE_CHECKING:
    import numpy as np

    from opshift.verification.feeding.asked import Asked
    from opshift.verification.feeding.meanings import Meanings

MOST = 1 << 30  # elements of an input: more is hardly meant
AXES = 32  # which every numpy has
FALLBACKS = ("fitting", "zeros", "ones", "counting")
_LARGER, _SMALLER, _RARE = 8.0, 2.0**-12, 17
_UNKNOWN = 8  # below which integers of no known meaning lie


@dataclass(frozen=True)
class Choice:
    """What is left open by a model, decided.

    Attributes:
        size: what dimensions take that are not in `sizes`.
        sizes: by symbol, or by the place of a dimension without one (`place`).
        fills: numbers that fill the whole of an input.
        fallback: what integers are, where they are not what their meaning says.
        turn: which of several constants an input takes that the model compares with them.
        wide: whether floats are drawn of more magnitudes than around 1.
        scale: how many times as large numbers are that may be any.
    """

    size: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    fills: Mapping[str, float] = field(default_factory=dict)
    fallback: str = FALLBACKS[0]
    turn: int = 0
    seed: int = 0
    wide: bool = False
    scale: float = 1.0


def place(name: str, axis: int) -> str:
    """How a dimension without a symbol is called; no symbol has such a name."""
    return f"{name}\n{axis}"


def undrawable(taken: Mapping[str, TypeProto]) -> str:
    """Why there are no values of these types, whatever is chosen; empty where there may be some."""
    axes = max((_axes(kind) for kind in taken.values()), default=0)
    return f"an input has {axes} dimensions" if axes > AXES else ""


def _axes(kind: TypeProto) -> int:
    while kind.WhichOneof("value") == "sequence_type":
        kind = kind.sequence_type.elem_type
    return len(tensor(kind).shape.dim)


def draw(
    taken: Mapping[str, TypeProto], meanings: Meanings, wanted: Asked, choice: Choice, most: int = MOST
) -> dict[str, Any]:
    """A value for each input; raises `EngineError` for what cannot be drawn, or has more elements than `most`."""
    import numpy as np

    random = np.random.default_rng(choice.seed)
    drawn = {name: kind for name, kind in taken.items() if name not in wanted.values}
    made = {name: _Drawn(name, meanings, wanted, choice, random, most).value(kind) for name, kind in drawn.items()}
    return {**made, **wanted.values}


def shape_of(name: str, kind: TypeProto, wanted: Asked, choice: Choice) -> list[int]:
    """The sizes that an input takes."""
    if name in wanted.shapes:
        return list(wanted.shapes[name])
    return [
        dim.dim_value if is_fixed(dim) else size_of(symbol(dim), place(name, axis), wanted, choice)
        for axis, dim in enumerate(tensor(kind).shape.dim)
    ]


def size_of(symbol: str, where: str, wanted: Asked, choice: Choice) -> int:
    """What a dimension takes; one that is written as a sum or a product of others is computed."""
    held = {**choice.sizes, **wanted.sizes}
    if (symbol or where) in held:
        return held[symbol or where]
    parts = terms(symbol)
    return choice.size if parts is None else computed(parts, held, choice.size)


@dataclass(frozen=True)
class _Drawn:
    """One input, as it is drawn."""

    name: str
    meanings: Meanings
    wanted: Asked
    choice: Choice
    random: np.random.Generator
    most: int

    def value(self, kind: TypeProto) -> Any:
        which = kind.WhichOneof("value")
        if which == "sequence_type":
            inner = kind.sequence_type.elem_type
            count = 1 if inner.HasField("sequence_type") else 2  # of sequences in sequences, one: they may nest deeply
            return [self.value(inner) for _ in range(count)]
        if which == "optional_type":
            return self.value(kind.optional_type.elem_type)
        shape = shape_of(self.name, kind, self.wanted, self.choice)
        if len(shape) > AXES or math.prod(shape) > self.most:
            raise EngineError(f"an input has {len(shape)} dimensions, or more than {self.most} elements")
        return self._array(kind.tensor_type.elem_type, shape)

    def _array(self, elem_type: int, shape: list[int]) -> Any:
        import numpy as np
        import onnx.helper

        if elem_type == TensorProto.STRING:
            words = np.array(["opset", "", "shift", "Up", "down"], dtype=object)
            return words[self.random.integers(0, len(words), shape)]
        if elem_type not in TensorProto.DataType.values() or not elem_type:
            raise EngineError("the type of an input is unknown")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
        bounds = self.wanted.range_of(self.name)
        if bounds is not None:
            return self._between(*bounds, shape, dtype)
        if self.name in self.choice.fills:
            return np.full(shape, self.choice.fills[self.name]).astype(dtype)
        if elem_type == TensorProto.BOOL:
            return self.random.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            return self._integers(shape, dtype)
        values = np.asarray(self.random.standard_normal(shape))
        if dtype.kind == "c":
            values = values + 1j * self.random.standard_normal(shape)
        values = self._of_both_signs(self._of_more_magnitudes(values))
        return (values if self.choice.scale == 1 else self._scaled(values, dtype)).astype(dtype)

    def _scaled(self, values: Any, dtype: Any) -> Any:
        import numpy as np

        return values * (min(self.choice.scale, 1024.0) if dtype == np.float16 else self.choice.scale)

    def _of_more_magnitudes(self, values: Any) -> Any:
        """Every other number beyond the bounds that networks have, as 6, and some below any threshold."""
        flat = values.reshape(-1)
        if self.choice.wide:
            flat[self.choice.seed % 2 :: 2] *= _LARGER
            flat[_RARE // 2 :: _RARE] *= _SMALLER
        return flat.reshape(values.shape)

    def _of_both_signs(self, values: Any) -> Any:
        """A few numbers may be all positive, where a Relu is nothing: every other one turns, a single one in turn."""
        import numpy as np

        if values.size == 1:
            return np.copysign(values, self.choice.seed % 2 - 0.5, out=values) if values.dtype.kind == "f" else values
        if values.size and abs(np.sign(values.real).sum()) == values.size:
            values.reshape(-1)[::2] *= -1
        return values

    def _between(self, low: float, high: float, shape: list[int], dtype: Any) -> Any:
        import numpy as np

        if dtype.kind in "iub":
            whole = self.random.integers(math.ceil(low), math.floor(high), shape, endpoint=True)
            return np.asarray(whole).astype(dtype)
        return np.asarray(self.random.uniform(low, high, shape)).astype(dtype)

    def _integers(self, shape: list[int], dtype: Any) -> Any:
        import numpy as np

        count = int(np.prod(shape))
        fallback = self.choice.fallback
        meaning = self.meanings.of.get(self.name, "") if fallback == FALLBACKS[0] else fallback
        compared = self.meanings.compared.get(self.name, ())
        values: Any
        if not meaning and count == 1 and compared and self.choice.turn % (len(compared) + 1) < len(compared):
            values = np.array(compared[self.choice.turn % (len(compared) + 1)])
        elif meaning in ("axes", "counting"):
            values = np.arange(count)
        elif meaning in ("axis", "zeros"):
            values = np.zeros(count)
        elif meaning == "ones":
            values = np.ones(count)
        elif meaning == "many":
            values = np.full(count, 5)
        elif meaning == "turns":
            values = np.full(count, 1 + self.choice.seed % 3)
        elif meaning == "divisor":
            values = self._divisors(count, dtype)
        elif meaning == "shape":
            values = np.array([-1, *[1] * (count - 1)][:count])
        elif meaning == "length":
            values = self.random.integers(1, max(self._shortest(), 1), count, endpoint=True)
        elif meaning == "index":
            values = self.random.integers(0, max(self.meanings.below.get(self.name, 2), 1), count)
        else:
            scale = 1.0 if self.name in self.meanings.used else self.choice.scale
            most = min(int(_UNKNOWN * scale), np.iinfo(dtype).max)
            low, high = (0, 256) if dtype == np.uint8 else (-128, 128) if dtype == np.int8 else (0, most)
            values = self.random.integers(low, high, count)
            if self.choice.wide and dtype.itemsize > 1 and self.name not in self.meanings.used:
                values[self.choice.seed % 2 :: 2] = self._large(values[self.choice.seed % 2 :: 2].size, dtype)
        return values.reshape(shape).astype(dtype)

    def _large(self, count: int, dtype: Any) -> Any:
        """Integers of all magnitudes, and of both signs where there are; no sum of two is beyond the type."""
        import numpy as np

        bits = dtype.itemsize * 8 - 2
        values = np.floor(2.0 ** self.random.uniform(0, min(bits, 60), count)).astype(np.int64)
        values += self.random.integers(0, 2, count)
        return values * self.random.choice([-1, 1], count) if dtype.kind == "i" else values

    def _divisors(self, count: int, dtype: Any) -> Any:
        """Integers other than 0; where they may tell sizes, small ones above it."""
        import numpy as np

        values = self.random.integers(1, _UNKNOWN, count)
        if self.name in self.meanings.used or dtype.kind == "u":
            return values
        if self.choice.wide:
            values[::3] = np.maximum(np.abs(self._large(values[::3].size, dtype)) >> 1, 1)
        return values * self.random.choice([-1, 1], count)

    def _shortest(self) -> int:
        return min([self.choice.size, *self.choice.sizes.values(), *self.wanted.sizes.values()])

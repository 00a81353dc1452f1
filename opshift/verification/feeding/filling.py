"""Draw seeded values for inputs from their types, shapes and meanings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opshift.passes.inputs.interface import tensor
from opshift.passes.inputs.sizes import evaluate_sum, terms
from opshift.passes.model.messages import TensorProto, TypeProto
from opshift.passes.model.types import is_fixed, symbol
from opshift.passes.records import dataclass, field
from opshift.verification.engines import EngineError
from opshift.verification.feeding.sizes import place

if TYPE_CHECKING:
    import numpy as np

    from opshift.verification.feeding.asked import Asked
    from opshift.verification.feeding.meanings import Meanings

MOST = 1 << 30  # elements of an input: more is hardly meant
AXES = 32  # which every numpy has
FALLBACKS = ("fitting", "ones", "sizes", "zeros", "positive")
_UNKNOWN = 8  # below which integers of no known meaning lie


@dataclass(frozen=True)
class Choice:
    """A decision for all that a model leaves open.

    Attributes:
        size: what dimensions take that are not in `sizes`.
        sizes: by symbol, or by the place of a dimension without one (`sizes.place`).
        fills: numbers that fill the whole of an input.
        fallback: what integers and truths are where they are not what they mean, or that floats are positive.
        turn: which of several constants an input takes that the model compares with them.
    """

    size: int = 3
    sizes: Mapping[str, int] = field(default_factory=dict)
    fills: Mapping[str, float] = field(default_factory=dict)
    fallback: str = FALLBACKS[0]
    turn: int = 0
    seed: int = 0


def draw(
    taken: Mapping[str, TypeProto], meanings: Meanings, wanted: Asked, choice: Choice, most: int = MOST
) -> dict[str, Any]:
    """Draw a value for each input by one choice; raise `EngineError` for unknown types, and for more elements than
    `most`. Runs for each set of inputs that is tried.
    """
    import numpy as np

    random = np.random.default_rng(choice.seed)
    drawn = {
        name: _Drawn(name, taken, meanings, wanted, choice, random, most).value(value_type)
        for name, value_type in taken.items()
        if name not in wanted.values
    }
    return {**drawn, **wanted.values}


def shape_of(name: str, value_type: TypeProto, wanted: Asked, choice: Choice) -> list[int]:
    """Compute the shape of an input. Used for each input that is drawn."""
    if name in wanted.shapes:
        return list(wanted.shapes[name])
    return [
        dim.dim_value if is_fixed(dim) else size_of(symbol(dim), place(name, axis), wanted, choice)
        for axis, dim in enumerate(tensor(value_type).shape.dim)
    ]


def size_of(symbol: str, where: str, wanted: Asked, choice: Choice) -> int:
    """Look up the size of a dimension; compute sums and products of others, as `past + 1`.

    Used for each input that is drawn.
    """
    sizes = {**choice.sizes, **wanted.sizes}
    if (symbol or where) in sizes:
        return sizes[symbol or where]
    parts = terms(symbol)
    return choice.size if parts is None else evaluate_sum(parts, sizes, choice.size)


@dataclass(frozen=True)
class _Drawn:
    """The way to draw one input."""

    name: str
    taken: Mapping[str, TypeProto]
    meanings: Meanings
    wanted: Asked
    choice: Choice
    random: np.random.Generator
    most: int

    def value(self, value_type: TypeProto) -> Any:
        """Draw a value of any type: a tensor, a sequence of two, an optional that is there. Runs for each input."""
        which = value_type.WhichOneof("value")
        if which == "sequence_type":
            inner = value_type.sequence_type.elem_type
            count = 1 if inner.HasField("sequence_type") else 2  # of sequences in sequences, one: they may nest deeply
            return [self.value(inner) for _ in range(count)]
        if which == "optional_type":
            return self.value(value_type.optional_type.elem_type)
        shape = shape_of(self.name, value_type, self.wanted, self.choice)
        if len(shape) > AXES or math.prod(shape) > self.most:
            raise EngineError(f"an input has {len(shape)} dimensions, or more than {self.most} elements")
        return self._draw_array(value_type.tensor_type.elem_type, shape)

    def _draw_array(self, elem_type: int, shape: list[int]) -> Any:
        """Draw an array by what is known of the input: the user's range, a fixed number, its meaning, else normal
        numbers. Runs for each tensor.
        """
        import numpy as np
        import onnx.helper

        if elem_type == TensorProto.STRING:
            words = np.array(["opset", "", "shift", "Up", "down", *self.meanings.words], dtype=object)
            value = words[self.random.integers(0, len(words), shape)]
            for column, known in self.meanings.categories.get(self.name, {}).items():
                part = value[...] if column is None else value[..., column : column + 1]
                part[...] = np.array(known, dtype=object)[self.random.integers(0, len(known), part.shape)]
            return value
        if elem_type not in TensorProto.DataType.values() or not elem_type:
            raise EngineError("the type of an input is unknown")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
        bounds = self.wanted.range_of(self.name)
        if bounds is not None and dtype.kind in "iub":
            low, high = math.ceil(bounds[0]), math.floor(bounds[1])
            return np.asarray(self.random.integers(low, high, shape, endpoint=True)).astype(dtype)
        if bounds is not None:
            return np.asarray(self.random.uniform(*bounds, shape)).astype(dtype)
        if self.name in self.choice.fills:
            return np.full(shape, self.choice.fills[self.name]).astype(dtype)
        meaning = self.meanings.of.get(self.name, "")
        if meaning == "scales":  # of all axes but two, 1; less and more than 1 in turn
            scale = (0.6, 1.5)[self.choice.seed % 2] if self.choice.fallback == FALLBACKS[0] else 1
            count = math.prod(shape)
            return np.array([1] * (count - 2) + [scale] * min(count, 2), dtype)
        if meaning == "zero":
            return np.zeros(shape, dtype)
        if dtype.kind in "iu" or elem_type == TensorProto.BOOL or meaning == "mask":
            return self._draw_whole_numbers(shape, dtype, meaning).reshape(shape).astype(dtype)
        values = np.asarray(self.random.standard_normal(shape))
        if dtype.kind == "c":
            values = values + 1j * self.random.standard_normal(shape)
        elif self.wanted.smooth and self.choice.seed % 2:
            values = _smooth(values)
        return (np.abs(values) if self.choice.fallback == "positive" else values).astype(dtype)

    def _draw_whole_numbers(self, shape: list[int], dtype: Any, meaning: str) -> Any:
        """Draw whole numbers by their meaning, or by the fallback of the choice. Used for integers, booleans and
        masks.
        """
        import numpy as np

        count, fallback, compared = math.prod(shape), self.choice.fallback, self.meanings.compared.get(self.name, ())
        turn = self.choice.turn % (len(compared) + 1)
        if count == 1 and turn < len(compared) and meaning in ("", "mask"):
            return np.array(compared[turn])
        if fallback in ("ones", "sizes", "zeros"):
            meaning = fallback
        if meaning == "axes":  # the first ones, the last ones, and those from the second one on
            return (np.arange(count), -1 - np.arange(count), 1 + np.arange(count))[self.choice.seed % 3]
        if meaning == "sizes":
            return np.arange(2, 2 + count)
        if meaning in _CONSTANT:
            return np.full(count, _CONSTANT[meaning])
        if meaning == "iterations":
            return np.full(count, 1 + self.choice.seed % 3)
        if meaning == "divisor":
            values = self.random.integers(1, _UNKNOWN, count)
            return values if dtype.kind == "u" else values * self.random.choice([-1, 1], count)
        if meaning == "shape":
            return np.array([-1, *[1] * (count - 1)][:count])
        if meaning == "length":
            return self._draw_lengths(count)
        if meaning == "index":
            return self._draw_indices(count, self.meanings.below.get(self.name, 2))
        if meaning == "mask":  # each row is full of ones, or its first half, in turn
            length = shape[-1] if shape else 1
            rows = np.arange(math.prod(shape[:-1])) + self.choice.seed
            return np.arange(length) < np.where(rows % 2, (length + 1) // 2, length)[:, None]
        if meaning == "type" or dtype.kind == "b":
            return self.random.integers(0, 2, count)
        if dtype.itemsize == 1:
            return self.random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, count, endpoint=True)
        # they may be sizes or places, so that none are negative but dividends
        least = -_UNKNOWN if meaning == "dividend" and dtype.kind == "i" else 0
        return self.random.integers(least, _UNKNOWN, count)

    def _draw_indices(self, count: int, below: int) -> Any:
        """Spread indices over a table, in a random order, with the first and the last among them."""
        import numpy as np

        places = (np.arange(count) + self.random.random()) * max(below, 1) / max(count, 1)
        if count > 1:
            places[[0, -1]] = 0, max(below - 1, 0)
        return self.random.permutation(places.astype(np.int64))

    def _draw_lengths(self, count: int) -> Any:
        """Draw lengths up to the size of their axis; one of them is the whole axis. Used for inputs that hold
        lengths.
        """
        values = self.random.integers(1, self._longest(), count, endpoint=True)
        values[self.choice.seed % max(count, 1) :][:1] = self._longest()
        return values

    def _longest(self) -> int:
        """Find the size of the axis that lengths are about: the largest dynamic one if nothing tells which.

        Used for inputs that hold lengths.
        """
        if self.name in self.meanings.axes:
            name, axis = self.meanings.axes[self.name]
            shape = self._shape(name)
            return max(shape[axis] if axis < len(shape) else 1, 1)
        others = [(name, tensor(value_type).shape.dim) for name, value_type in self.taken.items() if name != self.name]
        inner = [
            (self._shape(name)[axis], is_fixed(dims[axis])) for name, dims in others for axis in range(1, len(dims))
        ]
        dynamic = [size for size, fixed in inner if not fixed]
        return max([1, *(dynamic or [size for size, _ in inner][:1])])

    def _shape(self, name: str) -> list[int]:
        return shape_of(name, self.taken[name], self.wanted, self.choice)


def _smooth(noise: Any) -> Any:
    """Give the noise of an image or a sound the spectrum of real ones, in which neighbours are alike.

    It falls with the frequency in photos, and with its square in voices. That of noise is flat: its sums are near 0,
    and no band is quiet beside a loud one, as where a logarithm is taken. Used where rounding is measured.
    """
    import numpy as np

    shape = noise.shape
    axes: Sequence[int]
    if len(shape) > _IMAGE:
        axes = range(2, len(shape)) if shape[1] <= shape[-1] else range(1, len(shape) - 1)
    else:
        axes = [axis for axis, size in enumerate(shape) if size > 1 and (axis or len(shape) == 1)]
        axes = axes if len(axes) == 1 and shape[axes[0]] >= _SOUND else []
    if not noise.size or not any(shape[axis] > 1 for axis in axes):
        return noise
    frequency = np.sqrt(sum(each**2 for each in np.ix_(*(np.fft.fftfreq(shape[axis]) for axis in axes))))
    least = max(1 / _SOUND, frequency[frequency > 0].min())
    falling = np.maximum(frequency, least) ** -(2.0 if len(axes) == 1 else 1.0)
    falling = np.expand_dims(falling, [axis for axis in range(len(shape)) if axis not in axes])
    values = np.fft.ifftn(np.fft.fftn(noise, axes=axes) * falling, axes=axes).real
    return values / np.sqrt(np.mean(values**2))


_IMAGE = 3  # axes beyond which an input is an image, or a video
_SOUND = 256  # samples of the lowest tone; an input of one axis beside that of the batch is a sound if it has as many
_CONSTANT = {"zeros": 0, "ones": 1, "many": 5}

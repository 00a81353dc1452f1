"""The same as `places`, in operators: for sizes, scales and regions that only the running model knows.

Every number is a vector of one element, every position a float32, as in runtimes, or a float64 for data of that type.
"""

from __future__ import annotations

from dataclasses import dataclass

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.sampling.places import Sampling
from opshift.passes.rewrite.builder import Builder

T = TensorProto

FLOOR_WHERE_IT_GROWS = "floor where an axis grows, else ceil"
"""The nearest_mode of Resize before 11, which had no name."""


@dataclass(frozen=True)
class Value:
    """A value of floats; arithmetic emits nodes."""

    build: Builder
    name: str
    elem_type: int

    def __add__(self, other: Value | float) -> Value:
        return self._with("Add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._with("Sub", other)

    def __mul__(self, other: Value | float) -> Value:
        return self._with("Mul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._with("Div", other)

    def at_least(self, other: Value | float) -> Value:
        return self._with("Max", other)

    def at_most(self, other: Value | float) -> Value:
        return self._with("Min", other)

    def _with(self, op: str, other: Value | float) -> Value:
        return self.make(self.build.emit(op, [self.name, self.number(other).name]))

    def make(self, name: str) -> Value:
        """Another value of the same type."""
        return Value(self.build, name, self.elem_type)

    def number(self, other: Value | float) -> Value:
        """A number as a constant of the same type."""
        if isinstance(other, Value):
            return other
        return self.make(self.build.constant([other], self.elem_type))

    def apply(self, op: str) -> Value:
        """An operator of one operand."""
        return self.make(self.build.emit(op, [self.name]))

    def below(self, other: Value | float) -> str:
        """Where this is less, as bool."""
        return str(self.build.Less(self.name, self.number(other).name))

    def where(self, chosen: str, other: Value | float) -> Value:
        """This where `chosen`, else the other."""
        return self.make(self.build.Where(chosen, self.name, self.number(other).name))

    def integers(self) -> str:
        return str(self.build.Cast(self.name, to=T.INT64))


@dataclass(frozen=True)
class RuntimeAxis:
    """One axis that is resized; like `places.Axis`."""

    axis: int
    size: Value
    result: Value
    scale: Value
    start: Value | None = None
    end: Value | None = None
    length: Value | None = None  # size * scale, before it is cut to the result


def positions(along: RuntimeAxis, coordinates: str) -> Value:
    """Where each element of the result lies on the axis of the data."""
    build, size, result, scale = along.size.build, along.size, along.result, along.scale
    x = size.make(build.Cast(flat_indices.count(build, build.Reshape(result.integers(), [])), to=size.elem_type))
    if coordinates == "asymmetric":
        return x / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if coordinates in ("align_corners", "tf_crop_and_resize"):
        last, several = size - 1.0, size.number(1.0).below(result)
        if along.start is None or along.end is None:
            return (x * last / ((along.length or result) - 1.0)).where(several, 0.0)
        spread = along.start * last + x * (along.end - along.start) * last / (result - 1.0)
        return spread.where(several, (along.start + along.end) * 0.5 * last)
    centred = (x + 0.5) / scale - 0.5
    if coordinates == "pytorch_half_pixel":
        return centred.where(size.number(1.0).below(result), 0.0)
    if coordinates == "half_pixel_symmetric":
        return size / 2.0 * (size.number(1.0) - result / (scale * size)) + centred
    return centred


def nearest(x: Value, along: RuntimeAxis, how: Sampling) -> str:
    """The one element that each element of the result repeats."""
    rounded = {
        "floor": lambda: x.apply("Floor"),
        "ceil": lambda: x.apply("Ceil"),
        "round_prefer_floor": lambda: (x - 0.5).apply("Ceil"),
        "round_prefer_ceil": lambda: (x + 0.5).apply("Floor"),
        FLOOR_WHERE_IT_GROWS: lambda: _before_or_after(x, along),
    }[how.nearest_mode]()
    return _inside(rounded, along).integers()


def _before_or_after(x: Value, along: RuntimeAxis) -> Value:
    shrinks = x.make(x.build.Cast(along.scale.below(1.0), to=x.elem_type))
    before = x.apply("Floor")
    return before + (x.apply("Ceil") - before) * shrinks


def _inside(x: Value, along: RuntimeAxis) -> Value:
    return x.at_least(0.0).at_most(along.size - 1.0)


def taps(x: Value, along: RuntimeAxis, how: Sampling) -> list[tuple[str, Value]]:
    """What each element of the result is a weighted sum of: indices and weights, one pair a tap."""
    if how.mode == "linear":
        x = _inside(x, along)
        base = x.apply("Floor")
        part = x - base
        return [(base.integers(), part * -1.0 + 1.0), (_inside(base + 1.0, along).integers(), part)]
    base = x.apply("Floor")
    part, found = x - base, []
    for offset in (-1.0, 0.0, 1.0, 2.0):
        where, d = base + offset, (part - offset).apply("Abs")
        weight = (_near if offset in (0.0, 1.0) else _far)(d, how.cubic_coeff_a)
        if how.exclude_outside:
            weight = x.number(0.0).where(beyond(where, along), weight)
        found.append((_inside(where, along).integers(), weight))
    if how.exclude_outside:
        total = found[0][1] + found[1][1] + found[2][1] + found[3][1]
        found = [(indices, weight / total) for indices, weight in found]
    return found


def _near(d: Value, a: float) -> Value:
    """The weight of an element at a distance of up to 1."""
    return (d * (a + 2) - (a + 3)) * d * d + 1.0


def _far(d: Value, a: float) -> Value:
    """The same beyond, up to a distance of 2."""
    return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a


def smooth(x: Value, along: RuntimeAxis, how: Sampling) -> tuple[str, Value]:
    """The same for antialias, where the scale tells how many taps there are: one row for each element of the result."""
    build, squeezed = x.build, along.scale.at_most(1.0)
    first = (x.number(-1.0 if how.mode == "linear" else -2.0) / squeezed).apply("Floor") + 1.0
    taps = build.Reshape((first * -2.0 + 2.0).integers(), [])
    offsets = x.make(build.Cast(flat_indices.count(build, taps), to=x.elem_type)) + first
    x = x.make(build.Reshape(x.name, [-1, 1]))
    where = x.apply("Floor") + offsets
    d = ((where - x) * squeezed).apply("Abs")
    if how.mode == "linear":
        weights = (d * -1.0 + 1.0).at_least(0.0)
    else:
        beside = _far(d, how.cubic_coeff_a).where(d.below(2.0), 0.0)
        weights = beside.where(x.number(1.0).below(d), _near(d, how.cubic_coeff_a))
    if how.exclude_outside:
        weights = x.number(0.0).where(beyond(where, along), weights)
    total = x.make(build.ReduceSum(weights.name, [1], keepdims=1))
    return _inside(where, along).integers(), weights / total


def beyond(x: Value, along: RuntimeAxis) -> str:
    """Which positions lie beyond the data, as bool."""
    return str(x.build.Or(x.below(0.0), (along.size - 1.0).below(x)))

"""Which numbers each element type has, and which other types have all of them."""

from __future__ import annotations

from opshift.passes.model.types import ELEMENTS
from opshift.passes.records import dataclass


@dataclass(frozen=True)
class Integers:
    """A type of integers, by its ends."""

    name: str
    lowest: int
    highest: int

    def holds(self, other: Integers | Floats) -> bool:
        return isinstance(other, Integers) and self.lowest <= other.lowest and other.highest <= self.highest


@dataclass(frozen=True)
class Floats:
    """A type of floats.

    Attributes:
        name: as schemas spell it.
        digits: how many bits a number has from its leading one on.
        least: the exponent of the smallest number that has all digits; below it, the last digit stays where it is.
        largest: the largest number.
        infinite: whether it has infinities.
        nan: whether it has NaN.
        negative_zero: whether it has -0.0.
        powers: whether it has powers of two alone: no zero, and no sign.
    """

    name: str
    digits: int
    least: int
    largest: float
    infinite: bool = False
    nan: bool = True
    negative_zero: bool = True
    powers: bool = False

    def holds(self, other: Integers | Floats) -> bool:
        """Whether each number of another type is one of this type, too."""
        if self.powers:
            return isinstance(other, Floats) and other.powers
        if isinstance(other, Integers):
            within = max(-other.lowest, other.highest) <= self.largest
            return bool(within and other.highest < 2**self.digits)  # the lowest one is a power of two
        finest = other.least - other.digits + 1 >= self.least - self.digits + 1
        special = (self.infinite or not other.infinite) and (self.nan or not other.nan)
        return bool(finest and special and other.digits <= self.digits and other.largest <= self.largest)


_ALL: tuple[Integers | Floats, ...] = (
    *(Integers(f"int{bits}", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (2, 4, 8, 16, 32, 64)),
    *(Integers(f"uint{bits}", 0, 2**bits - 1) for bits in (2, 4, 8, 16, 32, 64)),
    Floats("double", 53, -1022, (2 - 2.0**-52) * 2.0**1023, infinite=True),
    Floats("float", 24, -126, (2 - 2.0**-23) * 2.0**127, infinite=True),
    Floats("float16", 11, -14, 65504.0, infinite=True),
    Floats("bfloat16", 8, -126, (2 - 2.0**-7) * 2.0**127, infinite=True),
    Floats("float8e4m3fn", 4, -6, 448.0),
    Floats("float8e4m3fnuz", 4, -7, 240.0, negative_zero=False),
    Floats("float8e5m2", 3, -14, 57344.0, infinite=True),
    Floats("float8e5m2fnuz", 3, -15, 57344.0, negative_zero=False),
    Floats("float8e8m0", 1, -127, 2.0**127, powers=True),
    Floats("float6e2m3", 4, 0, 7.5, nan=False),
    Floats("float6e3m2", 3, -2, 28.0, nan=False),
    Floats("float4e2m1", 2, 0, 6.0, nan=False),
)
FORMATS: dict[int, Integers | Floats] = {
    number: form for number, element in ELEMENTS.items() for form in _ALL if form.name == element.name
}
"""The numbers of each element type, by its number; those that an older onnx has no number for are left out."""

"""Which numbers an element type has, which type holds all of them, and what users call types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import ELEMENTS, NUMBERS, element_name
from opshift.passes.records import dataclass
from opshift.passes.spelling import hint

T = TensorProto


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
            return max(-other.lowest, other.highest + 1) <= min(2**self.digits, int(self.largest) + 1)
        finest = other.least - other.digits + 1 >= self.least - self.digits + 1
        special = (self.infinite or not other.infinite) and (self.nan or not other.nan)
        return finest and special and other.digits <= self.digits and other.largest <= self.largest


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

ALIASES: dict[str, tuple[str, ...]] = {
    "float8": ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"),
    "float6": ("float6e2m3", "float6e3m2"),
    "float4": ("float4e2m1",),
    "float32": ("float",),
    "float64": ("double",),
    "half": ("float16",),
}
"""Names of users for one type or for several."""

Carriers = Mapping[int, int]
"""The type that carries the values of another one, by the numbers of both."""


def read_carriers(texts: Iterable[str]) -> dict[int, int]:
    """Read `float8e4m3fn=float` and the like.

    Raises:
        ValueError: a type is not known, or does not hold all numbers of the other one.
    """
    found: dict[int, int] = {}
    for text in texts:
        narrow, sign, wide = text.partition("=")
        if not sign:
            raise ValueError(f"--interface {text}: give two types, such as float8e4m3fn=float")
        carriers = _numbers(wide, text)
        if len(carriers) != 1:
            raise ValueError(f"--interface {text}: {wide} is several types; one has to carry the values")
        for number in _numbers(narrow, text):
            _check_carrier(number, carriers[0], text)
            if found.setdefault(number, carriers[0]) != carriers[0]:
                raise ValueError(f"--interface names two types for {element_name(number)}")
    return {number: _last(found, wide) for number, wide in found.items()}


def _last(carriers: Carriers, number: int) -> int:
    """The type that carries a type in the end: each one holds more numbers than the last, so that there is no circle."""
    while number in carriers:
        number = carriers[number]
    return number


def _numbers(name: str, text: str) -> list[int]:
    names = ALIASES.get(name.lower(), (name.lower(),))
    known = {form.name for form in _ALL}
    if unknown := [each for each in names if each not in known]:
        raise ValueError(f"--interface {text}: there is no type {unknown[0]}{hint(unknown[0], [*known, *ALIASES])}")
    found = [NUMBERS[each.upper()] for each in names if each.upper() in NUMBERS]
    if not found:
        raise ValueError(f"--interface {text}: the installed onnx does not know {name}")
    return found


def _check_carrier(narrow: int, wide: int, text: str) -> None:
    if narrow == wide:
        raise ValueError(f"--interface {text}: that is one type")
    if not FORMATS[wide].holds(FORMATS[narrow]):
        fit = [form.name for form in _ALL if form.holds(FORMATS[narrow]) and form.name != FORMATS[narrow].name]
        least = ", ".join(fit) or "no type"
        raise ValueError(f"--interface {text}: {element_name(wide)} does not hold all its values; {least} could")

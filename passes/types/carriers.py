"""Which type carries the values of which other one, as users say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opshift.passes.model.formats import FORMATS
from opshift.passes.model.types import NUMBERS, element_name
from opshift.passes.spelling import hint

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
            raise ValueError(f"--interface {text}: {wide} stands for several types; name one of them")
        for number in _numbers(narrow, text):
            _check_carrier(number, carriers[0], text)
            if found.setdefault(number, carriers[0]) != carriers[0]:
                raise ValueError(f"--interface names two types for {element_name(number)}; give one")
    return {number: _last(found, wide) for number, wide in found.items()}


def _last(carriers: Carriers, number: int) -> int:
    """The type that carries a type in the end: each holds more numbers than the last, so that there is no circle."""
    while number in carriers:
        number = carriers[number]
    return number


def _numbers(name: str, text: str) -> list[int]:
    names = ALIASES.get(name.lower(), (name.lower(),))
    known = {form.name for form in FORMATS.values()}
    if unknown := [each for each in names if each not in known]:
        raise ValueError(f"--interface {text}: unknown type {unknown[0]}{hint(unknown[0], [*known, *ALIASES])}")
    found = [NUMBERS[each.upper()] for each in names if each.upper() in NUMBERS]
    if not found:
        raise ValueError(f"--interface {text}: the installed version of onnx does not know the type {name}")
    return found


def _check_carrier(narrow: int, wide: int, text: str) -> None:
    if narrow == wide:
        raise ValueError(f"--interface {text}: the two types are the same")
    if not FORMATS[wide].holds(FORMATS[narrow]):
        fit = [form.name for number, form in FORMATS.items() if form.holds(FORMATS[narrow]) and number != narrow]
        fit_names = ", ".join(fit) or "no type"
        raise ValueError(
            f"--interface {text}: {element_name(wide)} does not hold all values of the first type; {fit_names} could"
        )

"""Sizes as users give them, and those that are written as sums and products of others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opshift.passes.spelling import texts

Sizes = str | Mapping[str, int | Sequence[int]] | Iterable[str]
"""By the name of an input or of a symbolic dimension, or as text: `x:1,3,224,224`, `batch=1,seq=128`."""

BatchSize = int | str
"""A number of samples, or `dynamic` for any."""

CANNOT_CHANGE = "the batch size cannot change"
"""How a refusal to rebatch begins."""

_DYNAMIC = "dynamic"
_LIST = r"\[?\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\]?"


def sizes(given: Sizes | None) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """The shapes of inputs and the sizes of symbolic dimensions; raises `ValueError` for what has no meaning."""
    shapes: dict[str, tuple[int, ...]] = {}
    symbols: dict[str, int] = {}
    if isinstance(given, Mapping):
        for name, size in given.items():
            if isinstance(size, Iterable) and not isinstance(size, str):
                shapes[name] = tuple(map(whole, size))
            else:
                symbols[name] = whole(size)
    else:
        for text in texts(given, "give sizes by name, such as {'batch': 1}"):
            name, colon, rest = text.rpartition(":")
            found = re.fullmatch(_LIST, rest.strip())
            if colon and name and found:
                shape = tuple(int(size) for size in found[1].split(",") if size.strip())
                if shapes.setdefault(name, shape) != shape:
                    raise ValueError(f"two shapes are given for input {name!r}: {shapes[name]} and {shape}")
            else:
                symbols.update(_symbols(text))
    for name, held in (*shapes.items(), *((name, (size,)) for name, size in symbols.items())):
        if any(isinstance(size, bool) or not isinstance(size, int) or size < 0 for size in held):
            raise ValueError(f"the sizes of {name!r} must be whole numbers, 0 or more, not {held}")
    return shapes, symbols


def whole(size: Any) -> Any:
    """A whole number of any kind as one of Python's; anything else as it is."""
    return int(size) if hasattr(size, "__index__") and not isinstance(size, bool) else size


def _symbols(text: str) -> dict[str, int]:
    """`batch=4,seq=128`: sizes of symbolic dimensions."""
    found = {}
    for part in text.split(","):
        name, equals, size = part.rpartition("=")
        if not equals or not name.strip() or not size.strip().isdecimal():
            raise ValueError(f"a size is written INPUT:SIZE,SIZE,... or DIMENSION=SIZE, not {text!r}")
        found[name.strip()] = int(size)
    return found


def terms(symbol: str) -> list[str] | None:
    """The parts of `past + 1`, as exporters name dimensions; None for a plain name."""
    parts = symbol.replace("*", " * ").replace("+", " + ").replace("-", " - ").split()
    if len(parts) < 3 or len(parts) % 2 == 0 or any(sign not in "+-*" for sign in parts[1::2]):
        return None
    return parts if all(part.isidentifier() or part.isdecimal() for part in parts[::2]) else None


def evaluate_sum(parts: list[str], held: Mapping[str, int], size: int) -> int:
    """Compute a sum of sizes such as `past + 1`; names that `held` lacks have this size."""
    total, factor, sign = 0, 1, 1
    for index, part in enumerate(parts):
        if part in ("+", "-"):
            total, factor, sign = total + sign * factor, 1, 1 if part == "+" else -1
        elif index % 2 == 0:
            factor *= int(part) if part.isdecimal() else held.get(part, size)
    return max(total + sign * factor, 0)


def size_of(symbol: str, held: Mapping[str, int]) -> int | None:
    """The size of a symbolic dimension, or of a sum all of whose parts are `held`; None where it is open."""
    if symbol in held:
        return held[symbol]
    parts = terms(symbol)
    if parts is None or not all(part.isdecimal() or part in held for part in parts[::2]):
        return None
    return evaluate_sum(parts, held, 0)


def batch(size: BatchSize | None) -> BatchSize | None:
    """What a user gives, as a number where it is one; raises `ValueError` for what is neither."""
    size = int(size) if isinstance(size, str) and size.isdecimal() else whole(size)
    if size is None or size == _DYNAMIC or (isinstance(size, int) and not isinstance(size, bool) and size > 0):
        return size
    raise ValueError(f"a batch is 1 or more samples, or {_DYNAMIC} for any number, not {size!r}")

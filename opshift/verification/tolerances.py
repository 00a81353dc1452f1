"""The user's tolerances (`--rtol`, `--atol`), which replace opshift's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from opshift.passes.records import dataclass
from opshift.passes.spelling import texts

Given = float | str | Mapping[str, float] | Iterable[str]
"""A number for all outputs, or numbers by the name of an output; `x` or `output:x` as they are typed."""


@dataclass(frozen=True)
class Tolerance:
    """A difference may be `atol` plus `rtol` times the source's magnitude."""

    rtol: float = 0.0
    atol: float = 0.0

    def __str__(self) -> str:
        return f"rtol {self.rtol:g}, atol {self.atol:g}"


Tolerances = Mapping[str, Tolerance]
"""By the name of an output; the empty name stands for all others."""


def tolerances(rtol: Given | None, atol: Given | None) -> dict[str, Tolerance]:
    """Collect the user's tolerances by output; a missing one of the two is 0. Part of reading the options."""
    relative, absolute = _numbers("rtol", rtol), _numbers("atol", atol)
    return {
        name: Tolerance(*(held.get(name, held.get("", 0.0)) for held in (relative, absolute)))
        for name in (*relative, *absolute)
    }


def _numbers(what: str, given: Given | None) -> dict[str, float]:
    """Read `--rtol` or `--atol`, for all outputs (under the empty name) or by output; raises `ValueError` for what
    is no number.
    """
    pairs: dict[str, Any] = {}
    if isinstance(given, Mapping):
        pairs.update(given)
    elif isinstance(given, (int, float)):
        pairs[""] = given
    else:
        for text in texts(given, f"give {what} as a number, or as numbers by the names of outputs"):
            name, _, pairs[name] = text.rpartition(":")
    numbers: dict[str, float] = {}
    for name, number in pairs.items():
        try:
            numbers[name] = float(number)
        except (TypeError, ValueError):
            text = f"{name}:{number}" if name else str(number)
            raise ValueError(
                f"--{what} takes NUMBER or OUTPUT:NUMBER, such as --{what} 1e-3 or --{what} logits:1e-3, not {text!r}"
            ) from None
        if not (math.isfinite(numbers[name]) and numbers[name] >= 0):
            of = f" (of output {name!r})" if name else ""
            raise ValueError(f"{what} must be a number, 0 or more, not {number}{of}")
    return numbers

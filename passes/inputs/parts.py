"""Which part of a model a user asks for."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.passes.inputs import matching
from opshift.passes.records import dataclass

DEPTH = 2
"""How many nodes a part reaches in each direction from the node that it is around."""
_VALUES = "give values by name"


@dataclass(frozen=True)
class Cut:
    """What is to be cut out, by names of values, of nodes for what these make, or patterns of values.

    Attributes:
        to: the outputs of the part; without any, those of the model.
        start: values that the part is given, in the place of what makes them.
        around: a node, whose neighbours make the part.
        depth: how far these may be away.
    """

    to: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    around: str = ""
    depth: int = DEPTH


def part_of(
    to: str | Iterable[str] | None = None,
    start: str | Iterable[str] | None = None,
    around: str | None = None,
    depth: int | None = None,
) -> Cut:
    """The same from what was typed, or given in Python; raises `ValueError` for what has no meaning."""
    asked = Cut(matching.names(to, _VALUES), matching.names(start, _VALUES), around or "")
    if asked.around and (asked.to or asked.start):
        raise ValueError("name the part with --around, or with --from and --to")
    if not (asked.around or asked.to or asked.start):
        raise ValueError("name the part to extract with --to, --from or --around")
    if depth is not None and not asked.around:
        raise ValueError("--depth needs --around")
    if depth is not None and (not isinstance(depth, int) or depth < 0):
        raise ValueError(f"depth must be 0 or more, not {depth!r}")
    return Cut(asked.to, asked.start, asked.around, DEPTH if depth is None else depth)

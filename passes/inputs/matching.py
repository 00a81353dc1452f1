"""Names that a user gives, as they are or by a pattern with `*`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from opshift.passes.inputs.interface import check_name

CONNECT = "give connections as output=input"


def pairs(given: object, wanted: str) -> tuple[tuple[str, str], ...]:
    """Pairs of names from a mapping, from `old=new`, or from several of these.

    Raises:
        ValueError: it is something else; the message says what is `wanted`.
    """
    if given is None:
        return ()
    held = given.items() if hasattr(given, "items") else [given] if isinstance(given, str) else given
    if not isinstance(held, Iterable):
        raise ValueError(f"{wanted}, not {given!r}")
    found = []
    for each in held:
        pair = each.partition("=")[::2] if isinstance(each, str) else each
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(name, str) and name for name in pair):
            raise ValueError(f"{wanted}, not {each!r}")
        found.append(pair)
    return tuple(found)


def names(given: object, wanted: str) -> tuple[str, ...]:
    """Names from one text with commas, or from several.

    Raises:
        ValueError: it is something else; the message says what is `wanted`.
    """
    held = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(held, Iterable):
        raise ValueError(f"{wanted}, not {given!r}")
    found = []
    for each in held:
        if not isinstance(each, str):
            raise ValueError(f"{wanted}, not {each!r}")
        found += [name for name in each.split(",") if name]
    if given is not None and not found:
        raise ValueError(f"{wanted}, not {given!r}")
    return tuple(dict.fromkeys(found))


def select(pattern: str, among: Sequence[str], what: str) -> list[str]:
    """The names that a pattern stands for, or the name itself.

    Raises:
        ValueError: there is none; the message says what could be meant.
    """
    if "*" not in pattern or pattern in among:
        check_name(pattern, among, what)
        return [pattern]
    found = [name for name in among if is_like(pattern, name)]
    if not found:
        raise ValueError(f"no {what} of the model matches {pattern!r}")
    return found


def is_like(pattern: str, name: str) -> bool:
    """Whether a pattern stands for a name."""
    return _expression(pattern).fullmatch(name) is not None


def substitute(pattern: str, new: str, name: str) -> str:
    """The new name of one that a pattern stands for: each `*` is what stands there in the old one."""
    found = _expression(pattern).fullmatch(name)
    filled = iter(found.groups() if found else ())
    return re.sub(r"\*", lambda _: next(filled), new)


def check(pattern: str, new: str) -> None:
    """Raise `ValueError` for a new name with more `*` than the pattern has."""
    if new.count("*") > pattern.count("*"):
        raise ValueError(f"{pattern}={new}: every * on the right side needs a * on the left side")


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile("(.*)".join(map(re.escape, pattern.split("*"))), re.DOTALL)

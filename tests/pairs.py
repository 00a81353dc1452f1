"""Of tests with every combination of parameters, as few as show each value; of rows that somebody chose, each pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations, cycle, product
from math import prod
from typing import Any, TypeVar

import pytest

Row = tuple[int, ...]
T = TypeVar("T")
U = TypeVar("U")
whole = False
"""Whether every combination is asked for (`--whole`)."""


def some(rows: Sequence[T], step: int) -> Sequence[T]:
    """One row in so many, or each where every combination is asked for."""
    return rows if whole else rows[::step]


def in_turn(rows: Iterable[T], values: Sequence[U]) -> list[tuple[T, U]]:
    """Each row with one of the values, which take turns, or with each of them where every combination is asked for."""
    if whole:
        return list(product(rows, values))
    return list(zip(rows, cycle(values), strict=False))


def split(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that are needed, and those that show nothing that none of the former does."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    needed = {id(item) for of_one in functions.values() for item in _needed(of_one)}
    return [item for item in items if id(item) in needed], [item for item in items if id(item) not in needed]


def _needed(items: list[pytest.Item]) -> list[pytest.Item]:
    calls = [getattr(item, "callspec", None) for item in items]
    rows = numbered([call.params for call in calls if call is not None])
    if len(rows) != len(items) or len(rows[0]) < 2 or (len(rows[0]) == 2 and not is_product(rows)):
        return items
    return [items[index] for index in cover(rows, 1 if is_product(rows) else 2)]


def numbered(calls: Sequence[dict[str, Any]]) -> list[Row]:
    """The values of each call, which are the same objects wherever they recur, as numbers.

    Parameters that vary together count once, and those that do not vary never.
    """
    columns = set()
    for name in calls[0] if calls else ():
        numbers: dict[int, int] = {}
        columns.add(tuple(numbers.setdefault(id(call[name]), len(numbers)) for call in calls))
    return list(zip(*sorted(column for column in columns if any(column)), strict=True)) or [()] * len(calls)


def is_product(rows: Sequence[Row]) -> bool:
    """Whether each value stands beside each other one; rows that somebody chose are all needed."""
    return len(set(rows)) == prod(len(set(column)) for column in zip(*rows, strict=True))


def cover(rows: Sequence[Row], size: int) -> list[int]:
    """The rows, the best first, that together have all values that any row has; with a size of 2, all pairs of them."""
    pairs = [
        {tuple((place, row[place]) for place in places) for places in combinations(range(len(row)), size)}
        for row in rows
    ]
    left = set().union(*pairs)
    chosen = []
    while left:
        best = max(range(len(rows)), key=lambda index: len(pairs[index] & left))
        chosen.append(best)
        left -= pairs[best]
    return chosen

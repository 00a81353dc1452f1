"""Version boundaries of operators: which comes next, and whether it needs a step."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from opshift.passes.model import schemas
from opshift.passes.rewrite import registry


def too_early(op: str, at: int | None) -> bool:
    """Whether an operator is newer than the opset that the model imports."""
    return at is None and op not in schemas.BEFORE_ITS_TIME


def next_edge(domain: str, op: str, at: int, goal: int) -> int:
    """Find the next boundary between two versions; returns the version at its newer side.

    Asked at each step of a node's way.
    """
    known = schemas.versions(domain, op)
    return next(v for v in known if v > at) if goal > at else at


def _edges(domain: str, op: str, at: int, goal: int) -> list[tuple[int, int]]:
    """List all boundaries between two versions of an operator, as (before, after)."""
    low, high = sorted((at, goal))
    way = [v for v in schemas.versions(domain, op) if low <= v <= high]
    return list(pairwise(way if goal >= at else way[::-1]))


def needs_work(domain: str, op: str, at: int, goal: int) -> bool:
    """Whether a node must change, or may be refused, on the way from version `at` to `goal`."""
    return any(_needs_work(domain, op, *edge) for edge in _edges(domain, op, at, goal))


@cache
def _needs_work(domain: str, op: str, before: int, after: int) -> bool:
    """Whether a boundary has a step, is refused, or accepts fewer types. Asked once for each kind of node."""
    pair = registry.step(domain, op, max(before, after))
    if pair is not None:
        step = pair.up if after > before else pair.down
        return step is not None or bool(find_narrowed_types(domain, op, before, after))
    if schemas.difference(domain, op, *sorted((before, after))) == "changed":
        return True
    return bool(find_narrowed_types(domain, op, before, after))


@cache
def find_narrowed_types(domain: str, op: str, since: int, to: int) -> list[tuple[str, frozenset[str]]]:
    """Find type variables that accept fewer types after a boundary, with the types that are left."""
    old, new = schemas.schema(domain, op, since), schemas.schema(domain, op, to)
    if old is None or new is None:
        return []
    before = {type_variable(p): p.types for p in (*old.inputs, *old.outputs)}
    after = {type_variable(p): p.types for p in (*new.inputs, *new.outputs)}
    return [(v, types) for v, types in after.items() if v and v in before and not before[v] <= types]


def type_variable(parameter: schemas.Parameter | None) -> str:
    return parameter.type if parameter else ""

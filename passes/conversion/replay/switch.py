"""From which call of a kind on calls are replayed; before it, and where that is switched off, steps do them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

EARLIEST = 2
"""The first call only shows that there is a kind; from the next one on there is something to be learned."""

USUAL = 8
"""Learning costs as much as two or three calls, which the few of a kind among a hundred nodes do not earn back."""

_from: ContextVar[int | None] = ContextVar("replayed_from", default=USUAL)


@contextmanager
def replay_from(call: int | None) -> Iterator[None]:
    """Learn at this call of each kind, the `EARLIEST` or a later one, in the conversions in this block; None: never."""
    token = _from.set(call)
    try:
        yield
    finally:
        _from.reset(token)


def first_call_to_replay() -> int | None:
    """The call of each kind that is learned from; None where none is."""
    return _from.get()

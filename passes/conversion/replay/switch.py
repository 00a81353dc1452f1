"""Say from which call of a kind on opshift replays; before it, steps run."""

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
    """In this block, learn at this call of each kind; None: never replay.

    Used by tests that compare results with and without replay.
    """
    token = _from.set(call)
    try:
        yield
    finally:
        _from.reset(token)


def first_call_to_replay() -> int | None:
    """The call of each kind from which on opshift replays; None: never."""
    return _from.get()

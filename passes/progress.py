"""What is being done, told to who wants to know: a callback, and the logger `opshift` of the standard library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Heard = Callable[[str, int, int], object]
"""Is told what is being done, and which of how many it is; 0 of 0 where nobody knows."""

_heard: ContextVar[Heard | None] = ContextVar("heard", default=None)
_relay: list[Heard] = []


def tell(what: str, place: int = 0, count: int = 0) -> None:
    """Say what is done from now on."""
    if _relay:  # of a process that prints nothing
        _relay[0](what, place, count)
        return
    if "logging" in sys.modules:  # else nobody listens
        of = f" ({place} of {count})" if count else ""
        sys.modules["logging"].getLogger("opshift").info("%s%s", what, of)
    heard = _heard.get()
    if heard is not None:
        heard(what, place, count)


@contextmanager
def listen(by: Heard | None) -> Iterator[None]:
    """Let a callback hear what is done meanwhile."""
    before = _heard.set(by if by is not None else _heard.get())
    try:
        yield
    finally:
        _heard.reset(before)


def relay(by: Heard) -> None:
    """Send all progress of this process to another one."""
    _relay[:] = [by]

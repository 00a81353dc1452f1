"""A bound for the memory of calls that make room for all that a model claims to hold."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_LIMITED: ContextVar[bool] = ContextVar("limited", default=False)
_frozen = False


@contextmanager
def ours() -> Iterator[None]:
    """Nobody else works in this process meanwhile: limits, which hold for all of it, may be set."""
    token = _LIMITED.set(True)
    try:
        yield
    finally:
        _LIMITED.reset(token)


@contextmanager
def at_most(room: int | Callable[[], int]) -> Iterator[None]:
    """Let what asks for more than `room` bytes of memory get a `MemoryError`, where the process is `ours`.

    That holds for the main thread on Linux; elsewhere nothing is limited, nor is asked how much room there is.
    """
    restore = None
    if _LIMITED.get() and threading.current_thread() is threading.main_thread():
        restore = _limit(room if isinstance(room, int) else room())
    try:
        yield
    finally:
        if restore is not None:
            restore()


def _limit(room: int) -> Callable[[], None] | None:
    """Set the limit, unless there is a lower one; returns what puts the old one back."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = memory_in_use() + room
        if 0 <= soft < wanted:
            return None
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    except (ImportError, OSError, ValueError):  # not every system has these
        return None
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def memory_in_use() -> int:
    """The bytes of memory that the limit counts, as this process has them now; 0 where the system does not say."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmData:")), 0) << 10


@contextmanager
def collector_paused() -> Iterator[None]:
    """Messages and nodes form no cycles; looking for some costs a third of the time on a large graph.

    What is alive in the end is made old at once, so that no look is taken at it then.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            _grow_old()
            gc.enable()


def freeze() -> None:
    """Let the collector never look at what there is now."""
    global _frozen
    gc.freeze()
    _frozen = True


def _grow_old() -> None:
    """Make all that is alive old, unless something was ever frozen, which is not ours to unfreeze."""
    global _frozen
    _frozen = _frozen or gc.get_freeze_count() > 0  # which takes a step an object
    if not _frozen:
        gc.freeze()
        gc.unfreeze()

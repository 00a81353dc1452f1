"""Handle Ctrl-C and SIGTERM: clean up, but not while a compiled module loads."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from types import FrameType

_KINDS = (signal.SIGINT, signal.SIGTERM)
_AGAIN = 0.02  # seconds
_LOADING = (ExtensionFileLoader.create_module.__code__, ExtensionFileLoader.exec_module.__code__)
_BUILDING = "google.protobuf.internal.builder"  # makes types of messages, in the middle of which it crashes


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM raise `KeyboardInterrupt`, as Ctrl-C does, so that files are cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(kind, interrupt) for kind in _KINDS]
    try:
        yield
    finally:
        for kind, handler in zip(_KINDS, before, strict=True):
            signal.signal(kind, handler)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`, or try again a little later if a compiled module loads or protobuf builds classes.

    An exception in the middle of that is only printed, and leaves a broken module, or aborts the process.
    """
    if not _is_loading(frame):
        raise KeyboardInterrupt
    timer = threading.Timer(_AGAIN, _thread.interrupt_main, [number])
    timer.daemon = True
    timer.start()


def _is_loading(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in _LOADING or frame.f_globals.get("__name__") == _BUILDING:
            return True
        frame = frame.f_back
    return False

"""What is told while a command works: a bar on a terminal once it takes a while, or lines of the log with `-v`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter
from typing import Any

from opshift.cli.display import terminal
from opshift.cli.printing import printable
from opshift.passes import progress

_SOON = 0.5  # seconds after which a bar is drawn


@contextmanager
def working(options: argparse.Namespace) -> Iterator[None]:
    """Tell what is done meanwhile, on the standard error stream."""
    verbose, quiet = (getattr(options, name, False) for name in ("verbose", "quiet"))
    with _log() if verbose else nullcontext() if quiet else _draw_bar():
        yield


@contextmanager
def _log() -> Iterator[None]:
    """The records of the logger `opshift`, as lines."""
    import logging

    handler, logger = logging.StreamHandler(), logging.getLogger("opshift")
    handler.setFormatter(logging.Formatter("opshift: %(message)s"))
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def _draw_bar() -> Iterator[None]:
    """A bar, if the stream is a terminal."""
    console = terminal(sys.stderr)
    if console is None:
        yield
        return
    bar = _Bar(console)
    try:
        with progress.heard(bar.advance):
            yield
    finally:
        bar.stop()


class _Bar:
    """Drawn where something is told, so that no thread is there when a process is copied."""

    def __init__(self, console: Any):
        self._console, self._began = console, perf_counter()
        self._bar: Any = None

    def advance(self, what: str, place: int, count: int) -> None:
        if perf_counter() - self._began < _SOON:
            return
        if self._bar is None:
            from rich.progress import Progress

            self._bar = Progress(console=self._console, transient=True, auto_refresh=False)
            self._bar.start()
            self._task = self._bar.add_task("", total=None)
        self._bar.update(self._task, description=printable(what), completed=place, total=count or None)
        self._bar.refresh()

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()

"""Progress of a command: one line on a terminal, or lines of the log with `-v`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TextIO

from opshift.cli.printing import printable
from opshift.passes import progress


@contextmanager
def working(options: argparse.Namespace) -> Iterator[Callable[[], None]]:
    """Show progress on standard error; yields a function that clears the line, to call before printing."""
    verbose, quiet = (getattr(options, name, False) for name in ("verbose", "quiet"))
    line = _Line(sys.stderr)
    shown = progress.listen(line.show) if line.is_possible and not (verbose or quiet) else nullcontext()
    with _log() if verbose else shown:
        try:
            yield line.clear
        finally:
            line.clear()


@contextmanager
def _log() -> Iterator[None]:
    """Print the records of the logger `opshift` on standard error."""
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


class _Line:
    """A line that each step overwrites. No thread draws it: a forked process would wait for its lock forever."""

    def __init__(self, stream: TextIO):
        self._stream, self._length = stream, 0
        self.is_possible = stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")

    def show(self, what: str, place: int, count: int) -> None:
        width = 80
        with suppress(OSError, ValueError, AttributeError):
            width = os.get_terminal_size(self._stream.fileno()).columns or width
        line = printable(f"{what} ({place} of {count})" if count else f"{what} ...")[: width - 1]
        self._write(f"\r{line.ljust(self._length)}")
        self._length = len(line)

    def clear(self) -> None:
        if self._length:
            self._write(f"\r{' ' * self._length}\r")
            self._length = 0

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a terminal that is gone does not end the work
            self._stream.write(text)
            self._stream.flush()

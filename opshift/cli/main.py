"""The command line: one command from what was typed to its exit code, of which `opshift.jobs.exit_codes` tells."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import pairwise

from opshift.cli.parser import parsed
from opshift.cli.printing import printable
from opshift.jobs.exit_codes import DEFECT, INTERRUPTED, UNHEARD, fault


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a model may hold names that a terminal or a pipe has no letters for
            stream.reconfigure(errors="backslashreplace")
    options = argparse.Namespace(format="json" if _wants_json(typed) else "text")
    try:
        with _interruptible():
            options = parsed(typed)
            options.typed = typed
            from opshift.cli import commands

            gc.enable()
            code = int(getattr(commands, options.command)(options))
            sys.stdout.flush()
            return code
    except BrokenPipeError:  # who reads what is printed has left; closing the pipe must not complain once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNHEARD
    except KeyboardInterrupt:
        return _fail(options, INTERRUPTED, "interrupted")
    except Exception as error:
        named = (getattr(options, name, None) for name in ("model", "before", "after"))
        code, lines = fault(error, *filter(None, named))
        if code == DEFECT and os.environ.get("OPSHIFT_DEBUG"):
            raise
        return _fail(options, code, *lines)


def _wants_json(typed: Sequence[str]) -> bool:
    """Whether errors are to be told in JSON, also those about what was typed."""
    return "--format=json" in typed or ("--format", "json") in pairwise(typed)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let a request to terminate clean up, as an interrupt does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, signal.default_int_handler) for kind in kinds]
    try:
        yield
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


def _fail(options: argparse.Namespace, code: int, *lines: str) -> int:
    if getattr(options, "format", "text") == "json":
        from opshift.jobs import documents

        print(documents.written(getattr(options, "command", ""), documents.failure(code, lines)))
    print("opshift:", "\n".join(map(printable, lines)), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())

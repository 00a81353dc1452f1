"""The command line.

Exit codes: 0 done; 1 a defect of opshift itself; 2 usage; 3 refused: it cannot be converted, or no engine can run
it; 4 converted, but the outputs differ; 5 unreadable or invalid input; 6 the output cannot be
written. Nothing is left at the output path unless it is 0. Of many models, the largest code counts.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opshift.cli.parser import _parser
from opshift.cli.printing import printable
from opshift.jobs.exit_codes import DEFECT, INTERRUPTED, UNHEARD, fault


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if hasattr(options, "paths"):
        _tell_apart(parser, options)
    from opshift.cli import commands

    try:
        with _interruptible():
            code = int(getattr(commands, options.command)(options))
            sys.stdout.flush()
            return code
    except BrokenPipeError:  # who reads what is printed has left; closing the pipe must not complain once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNHEARD
    except KeyboardInterrupt:
        return _fail(INTERRUPTED, "interrupted")
    except Exception as error:
        named = (getattr(options, name, None) for name in ("model", "before", "after"))
        code, lines = fault(error, *filter(None, named))
        if code == DEFECT and os.environ.get("OPSHIFT_DEBUG"):
            raise
        return _fail(code, *lines)


def _tell_apart(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Which paths are models: the first of two, unless all go to a folder."""
    options.model = options.output = None
    if options.out_dir is None:
        if len(options.paths) > 2:
            parser.error("one model and its output, or --out-dir for several models")
        options.model, options.output = [*options.paths, None][:2]


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let a request to terminate clean up, as an interrupt does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail(code: int, *lines: str) -> int:
    print("opshift:", "\n".join(map(printable, lines)), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())

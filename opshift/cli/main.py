"""Run one command, and turn errors into messages and exit codes (see `opshift.jobs.exit_codes`)."""

from __future__ import annotations

import argparse
import errno
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from io import TextIOWrapper
from itertools import pairwise

from opshift.cli.interrupts import interruptible
from opshift.cli.parser import parse_arguments, verb
from opshift.cli.printing import printable
from opshift.jobs.exit_codes import DEFECT, INTERRUPTED, UNHEARD, UNWRITABLE, fault
from opshift.passes.process import freeze


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    _prepare_streams()
    options = argparse.Namespace(format="json" if _wants_json(typed) else "text", command=verb(typed))
    try:
        with interruptible():
            options = parse_arguments(typed)
            options.typed = typed
            from opshift.cli import commands

            if not gc.isenabled():
                freeze()  # what is imported stays, and need not be looked through
                gc.enable()
            with _stand_for_pipes(options):
                make_goal = commands.GOALS.get(options.command)
                if make_goal is not None:
                    code = commands.rewrite_models(options, make_goal(options))
                else:
                    code = int(getattr(commands, options.command)(options))
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        return _fail(options, INTERRUPTED, "interrupted")
    except Exception as error:
        if isinstance(error, OSError) and (why := _find_output_error(error)) is not None:
            return _fail_to_print(why)
        named = (getattr(options, name, None) for name in ("model", "other", "before", "after"))
        code, lines = fault(error, *filter(None, named))
        if code == DEFECT and os.environ.get("OPSHIFT_DEBUG"):
            raise
        return _fail(options, code, *lines)


def _stand_for_pipes(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Read pipes through files if a pipe is named; `piping` is slow to import."""
    named = [getattr(options, name, None) or "" for name in ("model", "other", "before", "after", "output")]
    if not any(path == "-" or path.startswith(("/dev/", "/proc/")) for path in named):
        return nullcontext()
    from opshift.cli.piping import stand_for_pipes

    return stand_for_pipes(options)


def _prepare_streams() -> None:
    if None in (sys.stdin, sys.stdout, sys.stderr):  # closed before the process began
        while (filler := os.open(os.devnull, os.O_RDWR)) < 3:  # or files that are opened would take their numbers
            continue
        os.close(filler)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):  # a model may hold names that a terminal or a pipe has no letters for
            stream.reconfigure(errors="backslashreplace")


def _wants_json(typed: Sequence[str]) -> bool:
    """Tell whether to print errors as JSON; also needed for errors of the arguments themselves."""
    return "--format=json" in typed or ("--format", "json") in pairwise(typed)


_FULL = (errno.EPIPE, errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


def _find_output_error(error: OSError) -> OSError | None:
    """Return the error that keeps standard output from being written; None if another thing went wrong."""
    try:
        sys.stdout.flush()
    except OSError as again:
        return again
    return error if error.filename is None and error.errno in _FULL else None  # of text that no buffer holds any more


def _fail_to_print(why: OSError) -> int:
    """Choose the exit code if standard output cannot be written, and redirect it, so that Python can close it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if why.errno == errno.EPIPE or (os.name == "nt" and why.errno == errno.EINVAL):
        return UNHEARD  # who reads what is printed has left
    return _fail(argparse.Namespace(), UNWRITABLE, f"cannot write to standard output: {why.strerror}")


def _fail(options: argparse.Namespace, code: int, *lines: str) -> int:
    if getattr(options, "format", "text") == "json":
        try:
            from opshift.jobs import documents

            print(
                documents.render_document(getattr(options, "command", ""), documents.failure(code, lines)), flush=True
            )
        except OSError as error:
            return _fail_to_print(error)
        except ImportError:  # of onnx, which it is about
            pass
    with suppress(OSError):  # the code tells it, too
        print("opshift:", "\n".join(map(printable, lines)), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())

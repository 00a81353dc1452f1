"""The command line.

Exit codes: 0 done; 1 a defect of opshift itself; 2 usage; 3 refused: it cannot be converted, or no engine can run
it; 4 converted, but the outputs differ; 5 unreadable input. Nothing is left at the output path unless it is 0.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

DONE, DEFECT, USAGE, REFUSED, DIFFERENT, UNREADABLE, INTERRUPTED, UNHEARD = 0, 1, 2, 3, 4, 5, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    from opshift import commands
    from opshift.passes.errors import InvalidModel, Refused

    try:
        with _interruptible():
            code = int(getattr(commands, options.command)(options))
            sys.stdout.flush()
            return code
    except InvalidModel as error:
        return _fail(UNREADABLE, _NO_TEXT if _is_damaged(options) else str(error))
    except Refused as error:
        return _fail(REFUSED, *str(error).splitlines())
    except ValueError as error:
        return _fail(USAGE, str(error))
    except BrokenPipeError:  # who reads what is printed has left; closing the pipe must not complain once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNHEARD
    except OSError as error:
        return _fail(UNREADABLE, f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))
    except (RecursionError, MemoryError):
        return _fail(UNREADABLE, "the model is nested too deeply or too large for the memory")
    except KeyboardInterrupt:
        return _fail(INTERRUPTED, "interrupted")
    except Exception as error:
        if os.environ.get("OPSHIFT_DEBUG"):
            raise
        if _is_damaged(options):
            return _fail(UNREADABLE, _NO_TEXT)
        return _fail(DEFECT, f"a defect of opshift: {type(error).__name__}: {error} (OPSHIFT_DEBUG=1 shows where)")


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


def printable(line: str) -> str:
    """A line with what names in a model may hold and a terminal would obey, or not show, spelled out."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


_NO_TEXT = "the model holds names that are not UTF-8"


def _is_damaged(options: argparse.Namespace) -> bool:
    """Whether names are not UTF-8. Only looked at once something went wrong: it takes long for a large model."""
    from opshift import files

    given = [getattr(options, name) for name in ("model", "before", "after") if hasattr(options, name)]
    try:
        return not all(files.names_are_texts(files.read(path)) for path in given)
    except Exception:  # what led here is what is told
        return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="opshift",
        description="Move ONNX models between opset versions, up and down, and prove that they compute the same.",
        epilog="exit codes: 0 done, 2 usage, 3 refused, 4 the outputs differ, 5 unreadable input",
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    convert = verbs.add_parser("convert", help="convert a model to another opset")
    _add_rewriting(convert)
    convert.add_argument(
        "--opset",
        required=True,
        action="append",
        metavar="N|latest|TARGET|DOMAIN=N",
        help="the opset to reach, the newest, or what a target reads; again for another domain",
    )

    inline = verbs.add_parser("inline", help="replace operators by their definitions")
    _add_rewriting(inline)
    inline.add_argument("--op", action="append", default=[], help="an operator, Name or domain::Name; repeatable")
    inline.add_argument("--deny", metavar="FILE", help="a file of operators, one a line, or a TOML file with `ops`")
    inline.add_argument("--domain", help="all operators of this domain, the model's own functions among them")
    inline.add_argument(
        "--target", help="all that this target lacks, at an opset that it reads: a name (see `targets`) or a TOML file"
    )
    inline.add_argument("--opset", metavar="N", help="also convert to this opset")

    verify = verbs.add_parser("verify", help="run two models on the same inputs and compare")
    verify.add_argument("before")
    verify.add_argument("after")
    verify.add_argument("--close", action="store_true", help="allow for other rounding, not only for other kernels")
    verify.add_argument("--seed", type=int, default=0)
    _add_format(verify)

    inspect = verbs.add_parser("inspect", help="show what a model consists of and which opsets it can reach")
    inspect.add_argument("model")
    inspect.add_argument("--target", help="show what this target would refuse, and what would be rewritten for it")
    _add_format(inspect)

    ledger = verbs.add_parser("ledger", help="show what is done about each change of each operator")
    ledger.add_argument("--opset", type=int, metavar="N", help="only the changes at this opset of the installed onnx")
    ledger.add_argument("--markdown", action="store_true", help="the whole table, as it stands in docs/support.md")
    ledger.add_argument("--definitions", action="store_true", help="what operators become: docs/definitions.md")

    targets = verbs.add_parser("targets", help="list the known targets")
    _add_format(targets)

    probe = verbs.add_parser("probe", help="find out what an installed backend reads, and write a target file")
    probe.add_argument("--backend", required=True, help="onnxruntime, openvino, opencv or tract")
    probe.add_argument("--output", metavar="FILE", help="where to write; without it, to the standard output")
    probe.add_argument("--op", action="append", default=[], help="only this operator; repeatable")
    return parser


def _add_rewriting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model")
    parser.add_argument("output", nargs="?", help="where to write; without it, beside the model under a telling name")
    parser.add_argument("--in-place", action="store_true", help="replace the model itself, at once or not at all")
    parser.add_argument(
        "--external-data",
        choices=("keep", "copy", "all", "none"),
        help="keep external data where they are, copy their files along, put all large tensors into one data file, or "
        "none; without it, keep them for an output in the same folder and copy them otherwise",
    )
    parser.add_argument(
        "--threshold",
        type=int,
        default=1024,
        metavar="BYTES",
        help="the least size of a tensor that `--external-data all` puts into the data file (default: 1024)",
    )
    parser.add_argument("--ir-version", type=int, metavar="N", help="the IR version to write")
    parser.add_argument("--no-verify", action="store_true", help="do not run both forms")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done; write nothing")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs that both forms run on")
    _add_format(parser)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _version() -> str:
    from opshift import __version__

    return f"opshift {__version__}"


if __name__ == "__main__":
    sys.exit(main())

"""Read models from pipes, and write one to standard output, by files in a temporary folder."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

from opshift.files.writing import scratch
from opshift.passes.errors import InvalidModel

_INPUTS = ("model", "other", "before", "after")
_STANDARD = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_OPEN = re.compile(r"/dev/stdin|(/dev|/proc/self)/fd/\d+")
"""Paths of open files of this process; a shell makes one of `<(command)`."""


@contextmanager
def stand_for_pipes(options: argparse.Namespace) -> Iterator[None]:
    """Copy pipes into files for a command to read, and its output to standard output in the end.

    If the model goes to standard output, messages go to standard error.

    Raises:
        ValueError: two models come from the standard input, or a model would go to a terminal.
    """
    given = [name for name in _INPUTS if _is_pipe(getattr(options, name, None))]
    to_standard = getattr(options, "output", None) in ("-", "/dev/stdout") and hasattr(options, "in_place")
    if not given and not to_standard:
        yield
        return
    if sum(getattr(options, name) in _STANDARD for name in given) > 1:
        raise ValueError("only one model can be read from standard input (-); give a file for the other")
    if given and getattr(options, "in_place", False):
        raise ValueError("--in-place needs a model in a file, but this one comes from a pipe; give an output")
    output = sys.stdout
    with scratch() as folder:
        shown = {name: getattr(options, name) for name in given}
        names = {_spool(options, name, folder): _spell_path(path) for name, path in shown.items()}
        if to_standard:
            if output.isatty():
                raise ValueError("cannot write a model to the terminal; redirect it to a file or a pipe")
            _embed(options)
            options.output = os.path.join(folder, "output.onnx")
            names[options.output] = "standard output"
        elif given and hasattr(options, "in_place") and not options.output and options.out_dir is None:
            raise ValueError("the model comes from a pipe: give an output file, or - for standard output")
        try:
            with redirect_stdout(_RenamingStream(sys.stderr if to_standard else output, names)):
                yield
        except InvalidModel as error:
            raise InvalidModel(_rename(str(error), names)) from None
        if to_standard and os.path.exists(options.output):
            with open(options.output, "rb") as made:
                shutil.copyfileobj(made, output.buffer)
            output.buffer.flush()


def _is_pipe(path: str | None) -> bool:
    """Tell whether a path is a stream, which can be read only once."""
    if path is None or path == "-":
        return path is not None
    if not _OPEN.fullmatch(path):
        return False
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _spool(options: argparse.Namespace, name: str, folder: str) -> str:
    """Copy a pipe into a file, and put that into the options; returns its path."""
    path, file = getattr(options, name), os.path.join(folder, f"{name}.onnx")
    with open(file, "wb") as made:
        if path in _STANDARD:
            shutil.copyfileobj(sys.stdin.buffer, made)
        else:
            with open(path, "rb") as source:
                shutil.copyfileobj(source, made)
    setattr(options, name, file)
    return file


def _spell_path(path: str) -> str:
    return "standard input" if path in _STANDARD else path


def _embed(options: argparse.Namespace) -> None:
    if options.external_data not in (None, "none"):
        raise ValueError(
            f"--external-data {options.external_data} writes files beside the model, so it needs an "
            "output file, not a pipe"
        )
    options.external_data = "none"


def _rename(text: str, names: Mapping[str, str]) -> str:
    for path, name in names.items():
        text = text.replace(path, name)
    return text


class _RenamingStream:
    """A stream that replaces the paths of temporary files by the names that the user typed."""

    def __init__(self, stream: Any, names: Mapping[str, str]):
        self._stream, self._names = stream, names

    def write(self, text: str) -> int:
        return int(self._stream.write(_rename(text, self._names)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

"""The parser of the command line, which suggests a spelling for unknown commands and options."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NoReturn

from opshift.passes.spelling import hint

vars(argparse)["_"] = str  # what we read in its messages, and add to them, is English; to look for another takes long


class Misuse(ValueError):
    """Wrong arguments; the message also names the help of the command."""

    def __init__(self, why: str, parser: argparse.ArgumentParser):
        super().__init__(f"{why}\nusage: {parser.prog} --help")


COMMAND = "COMMAND"
MODELS = (".onnx", ".xml")


@cache
def _width() -> int:
    """Measure the terminal as argparse does, but without `shutil`, which is slow to import."""
    columns = 0
    with suppress(KeyError, ValueError):
        columns = int(os.environ["COLUMNS"])
    if columns <= 0:
        with suppress(AttributeError, ValueError, OSError):
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
    return (columns or 80) - 2


class _Formatter(argparse.HelpFormatter):
    """Measures the terminal once: argparse makes a formatter for each argument."""

    def __init__(self, prog: str, **named: Any):
        super().__init__(prog, **{"width": _width(), **named})


class _StoreOnce(argparse._StoreAction):
    """Stores the value of an option. Of two, as `--target mnn --target rknn`, one would be lost without a word."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, option: str | None = None
    ) -> None:
        held = getattr(namespace, self.dest, self.default)
        if option is not None and held not in (self.default, value):
            raise Misuse(f"{option} is given twice, as {held} and as {value}; give one", parser)
        super().__call__(parser, namespace, value, option)


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviations, and raises `Misuse` where others end the process."""

    def __init__(self, **named: Any):
        super().__init__(**{"allow_abbrev": False, "formatter_class": _Formatter, **named})
        self.register("action", None, _StoreOnce)
        self.register("action", "store", _StoreOnce)

    def error(self, message: str) -> NoReturn:
        if message.endswith(f"required: {COMMAND}"):
            raise Misuse(f"give a command: {', '.join(_verbs(self))}", self)
        found = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if found and found[1].lower().endswith(MODELS):
            raise Misuse(f"give a command first, such as: {self.prog} convert {found[1]} ...", self)
        if found and message.startswith(f"argument {COMMAND}:"):
            from opshift.cli import elsewhere

            verbs = _verbs(self)
            if line := elsewhere.name_command(found[1]):
                raise Misuse(f"unknown command {found[1]!r}; type: {self.prog} {line}", self)
            likely = hint(found[1], verbs) or f"; commands are {', '.join(verbs)}"
            raise Misuse(f"unknown command {found[1]!r}{likely}", self)
        if number := re.fullmatch(r"argument (?:-\w/)?(\S+): invalid int value: (.*)", message):
            raise Misuse(f"{number[1]} must be a whole number, not {number[2]}", self)
        if alone := re.fullmatch(r"argument (?:-\w/)?(\S+): expected (?:one|at least one) argument", message):
            value = self._option_string_actions[alone[1]]
            raise Misuse(f"{alone[1]} needs a value: {alone[1]} {value.metavar or value.dest.upper()}", self)
        choices = re.findall(r"[\w-]+", found[2]) if found else []
        raise Misuse(message + (hint(found[1], choices) if found else ""), self)

    def unknown(self, arguments: Sequence[str], verbs: Mapping[str, Parser], typed: Sequence[str] = ()) -> NoReturn:
        """Raise `Misuse` for unknown arguments, with a hint: the line to type, commands that have the option, or a
        likely spelling.
        """
        first = next((each for each in arguments if each.startswith("-")), arguments[0])
        if not first.startswith("-"):
            raise Misuse(f"unexpected argument {first!r}", self)
        from opshift.cli import elsewhere

        name = first.partition("=")[0]
        if told := elsewhere.answer(self, name, typed):
            why, line = told
            raise Misuse(f"unknown argument {name!r}: {why}{elsewhere.spell(line) if line else ''}", self)
        others = [verb for verb, parser in verbs.items() if name in parser._option_string_actions]
        if others:
            raise Misuse(f"{name} is an option of {', '.join(others)}, not of {self.prog.rpartition(' ')[2]}", self)
        own = [option[2:] for option in self._option_string_actions if option.startswith("--")]
        raise Misuse(f"unknown argument {name!r}{hint(name.lstrip('-'), own, '--{}'.format)}", self)


class Version(argparse.Action):
    """Prints the versions of opshift, onnx, onnxruntime and Python, and ends."""

    def __init__(self, option_strings: Sequence[str], **named: Any):
        super().__init__(option_strings, **{**named, "dest": argparse.SUPPRESS}, nargs=0)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from opshift import __version__

        held = ", ".join(map(_version_of, ("onnx", "onnxruntime")))
        print(f"opshift {__version__} ({held}, Python {'.'.join(map(str, sys.version_info[:3]))})")
        parser.exit()


def _version_of(package: str) -> str:
    import importlib.metadata

    from opshift.verification.adapters import KNOWN

    for name in KNOWN[package].packages if package in KNOWN else (package,):
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"no {package}"


class Completion(argparse.Action):
    """Prints a script that completes commands, options and files in a shell, and ends."""

    def __init__(self, option_strings: Sequence[str], **named: Any):
        super().__init__(option_strings, **{**named, "dest": argparse.SUPPRESS}, choices=("bash", "zsh", "fish"))

    def __call__(self, parser: argparse.ArgumentParser, _: object, shell: Any, *__: object) -> None:
        if shell == "fish":
            from opshift.cli import fish

            print(fish.script(parser), end="")
            parser.exit()
        try:
            import shtab
        except ImportError:
            raise ValueError("shell completion needs the package shtab: pip install opshift[completion]") from None
        for each in _all(parser):
            for action in each._actions:
                if action.metavar in _FILES or action.dest in _MODELS:
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
                elif action.metavar == "DIR":
                    action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        print(shtab.complete(parser, shell))
        parser.exit()


def _verbs(parser: argparse.ArgumentParser) -> list[str]:
    held = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return [verb for verbs in held for verb in verbs]


_FILES = ("PATH", "FILE", "FILE.html", "FILE.toml")
_MODELS = ("model", "before", "after")


def _all(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """List a parser and the parsers of its commands."""
    inner = [a.choices.values() for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return [parser, *(each for held in inner for each in held)]

"""How the command line takes what is typed: what is misspelt is told with what could be meant."""

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
    """What was typed has no meaning."""

    def __init__(self, why: str, parser: argparse.ArgumentParser):
        super().__init__(f"{why}\nusage: {parser.prog} --help")


COMMAND = "COMMAND"
MODELS = (".onnx", ".xml")
_ELSEWHERE = (
    ("help", "versions are printed by `opshift --version`", "--version -V"),
    ("paths", "the output is named behind the model, without an option", "-o --out --output --output-path"),
    ("paths", "models are named without an option", "-i --input --input-model --input-path -m --model"),
    ("paths", "what stands where a model is written is replaced without it", "-f --force -y --yes --overwrite"),
    ("opset", "the opset is named by --opset", "--opset-version --target-opset --target-version --to"),
    ("rtol", "what outputs may differ by is named by --rtol and --atol", "--tolerance --tol --eps"),
    ("format", "JSON is asked for by --format json", "--json -j"),
    ("rebatch", "the batch is fixed by --fix-shape or --rebatch", "-b --batch --batch-size"),
    ("fix_shape", "sizes are fixed by --fix-shape", "--shape --input-shapes --overwrite-input-shape"),
    ("optimize", "graphs are made smaller by --optimize", "--simplify"),
    ("no_verify", "nothing is proved with --no-verify", "--skip-verify --no-check --skip-check"),
)
"""What an option of other tools is here: for parsers that know one by that name."""


@cache
def _width() -> int:
    """Of the terminal, less what argparse leaves free: what `shutil` tells, which takes longer to import."""
    columns = 0
    with suppress(KeyError, ValueError):
        columns = int(os.environ["COLUMNS"])
    if columns <= 0:
        with suppress(AttributeError, ValueError, OSError):
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
    return (columns or 80) - 2


class _Formatter(argparse.HelpFormatter):
    """Asks once how wide the terminal is; there is a formatter for each argument."""

    def __init__(self, prog: str, **named: Any):
        super().__init__(prog, **{"width": _width(), **named})


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviations, and raises `Misuse` where others end the process."""

    def __init__(self, **named: Any):
        super().__init__(**{"allow_abbrev": False, "formatter_class": _Formatter, **named})

    def error(self, message: str) -> NoReturn:
        if message.endswith(f"required: {COMMAND}"):
            raise Misuse(f"name what is to be done: {', '.join(_verbs(self))}", self)
        found = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if found and found[1].lower().endswith(MODELS):
            raise Misuse(f"name what is to be done first, such as: {self.prog} convert {found[1]} ...", self)
        if found and message.startswith(f"argument {COMMAND}:"):
            verbs = _verbs(self)
            likely = hint(found[1], verbs) or f"; {', '.join(verbs)} are known"
            raise Misuse(f"unknown command {found[1]!r}{likely}", self)
        if number := re.fullmatch(r"argument (?:-\w/)?(\S+): invalid int value: (.*)", message):
            raise Misuse(f"{number[1]} is a whole number, not {number[2]}", self)
        if alone := re.fullmatch(r"argument (?:-\w/)?(\S+): expected (?:one|at least one) argument", message):
            value = self._option_string_actions[alone[1]]
            raise Misuse(f"{alone[1]} needs a value: {alone[1]} {value.metavar or value.dest.upper()}", self)
        choices = re.findall(r"[\w-]+", found[2]) if found else []
        raise Misuse(message + (hint(found[1], choices) if found else ""), self)

    def unknown(self, arguments: Sequence[str], verbs: Mapping[str, Parser]) -> NoReturn:
        """Raise `Misuse` for what no option takes, with the verbs that have such a one."""
        first = next((each for each in arguments if each.startswith("-")), arguments[0])
        if not first.startswith("-"):
            raise Misuse(f"{first!r} is one argument too many", self)
        name = first.partition("=")[0]
        known = {action.dest for action in self._actions}
        for needed, told, options in _ELSEWHERE:
            if needed in known and name.replace("_", "-") in options.split():
                raise Misuse(f"unknown argument {name!r}: {told}", self)
        others = [verb for verb, parser in verbs.items() if name in parser._option_string_actions]
        if others:
            raise Misuse(f"{name} is an option of {', '.join(others)}, and not of {self.prog.rpartition(' ')[2]}", self)
        own = [option[2:] for option in self._option_string_actions if option.startswith("--")]
        raise Misuse(f"unknown argument {name!r}{hint(name.lstrip('-'), own, '--{}'.format)}", self)


class Version(argparse.Action):
    """Prints the versions of opshift, of what it runs on and of what judges, and ends."""

    def __init__(self, option_strings: Sequence[str], **named: Any):
        super().__init__(option_strings, **{**named, "dest": argparse.SUPPRESS}, nargs=0)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from opshift import __version__

        held = ", ".join(map(_installed, ("onnx", "onnxruntime")))
        print(f"opshift {__version__} ({held}, Python {'.'.join(map(str, sys.version_info[:3]))})")
        parser.exit()


def _installed(package: str) -> str:
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
        super().__init__(option_strings, **{**named, "dest": argparse.SUPPRESS}, choices=("bash", "zsh"))

    def __call__(self, parser: argparse.ArgumentParser, _: object, shell: Any, *__: object) -> None:
        try:
            import shtab
        except ImportError:
            raise ValueError("completion needs shtab: pip install opshift[completion]") from None
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
    """A parser and those of its commands."""
    inner = [a.choices.values() for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return [parser, *(each for held in inner for each in held)]

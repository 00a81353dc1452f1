"""Commands and options of other tools, and the line to type instead."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MODELS = (".onnx", ".xml")


class Other(NamedTuple):
    """Options of other tools that mean the same.

    Attributes:
        needed: an argument of opshift; commands that have it give this answer.
        said: the sentence that tells what to do.
        options: the names in other tools.
        instead: the option of opshift to type; each value replaces `{}`. Empty: type nothing. None: suggest no line.
    """

    needed: str
    said: str
    options: str
    instead: str | None = None


_FLAGS = "--float16 --fp16 --half --to-fp16 --convert-fp16 --compress-to-fp16"
_SKIPS = "--skip-optimization --skip-optimizations --skip-fuse-bn --skip-fusion-patterns --skip-constant-folding"
_HALF = "half precision is asked for by --types: opshift convert IN OUT --types float16"
_TYPES = "element types are asked for by --types: opshift convert IN OUT --types float16"

OTHERS = (
    Other("help", "use `opshift --version`", "--version -V"),
    Other("output", "write the output after the model, without an option", "-o --out --output --output-path"),
    Other("paths", "write the output after the model, without an option", "-o --out --output --output-path", "LAST"),
    Other("paths", "write the model without an option", "-i --input --input-model --input-path -m --model", "FIRST"),
    Other("paths", "outputs are overwritten anyway", "-f --force -y --yes --overwrite", ""),
    Other("opset", "use --opset", "--opset-version --target-opset --target-version --to", "--opset {}"),
    Other("ir_version", "use --ir-version", "--ir --target-ir-version", "--ir-version {}"),
    Other("rtol", "use --rtol and --atol", "--tolerance --tol --eps", "--rtol {}"),
    Other("format", "use --format json", "--json -j", "--format json"),
    Other("rebatch", "use --fix-shape or --rebatch", "-b --batch --batch-size --fix-batch", "--rebatch {}"),
    Other(
        "fix_shape",
        "use --fix-shape",
        "--shape --input-shapes --overwrite-input-shape --override-input-shape --override-input-shapes",
        "--fix-shape {}",
    ),
    Other("input_shape", "use --input-shape", "--model-check-inputs --test-input-shape", "--input-shape {}"),
    Other("optimize", "use --optimize", "--simplify --fold-constants --cleanup", "--optimize"),
    Other("paths", "it is done anyway", "--simplify --fold-constants --cleanup --include-subgraph", ""),
    Other(
        "optimize",
        "models are only optimized if you ask for it",
        f"{_SKIPS} --no-optimize",
        "",
    ),
    Other(
        "paths",
        "every change is verified, so that none has to be skipped",
        _SKIPS,
        "",
    ),
    Other(
        "annotate",
        "shapes of inner values are only written with --annotate",
        "--no-shape-infer --no-shape-inference --skip-shape-inference",
        "",
    ),
    Other("no_verify", "the result is verified anyway", "--check --check-n --model-check", ""),
    Other("no_verify", "use --no-verify", "--skip-verify --no-check --skip-check --no-model-check", "--no-verify"),
    Other("fix_shape", "use --set", "--constant-input --fix-input", "--set {}"),
    Other("start", "use --to", "--outputs --output-names", "--to {}"),
    Other("start", "use --from", "--input-names", "--from {}"),
    Other("add_output", "use --add-output", "--outputs --mark", "--add-output {}"),
    Other("drop_output", "use --drop-output", "--unused-output --unmark", "--drop-output {}"),
    Other("inputs", "use --inputs", "--input-data-path --load-inputs", "--inputs {}"),
    Other("external_data", "use --external-data all", "--save-as-external-data", "--external-data all"),
    Other("types", _HALF, _FLAGS, "--types float16"),
    Other("types", _HALF.replace("float16", "bfloat16"), "--bfloat16 --bf16 --to-bf16", "--types bfloat16"),
    Other("types", _TYPES, "--dtype --precision --data-type --low-precision-type", "--types {}"),
    Other(
        "types",
        "int32 in the place of int64 is asked for by --types: opshift convert IN OUT --types int64=int32",
        "--int32 --int64-to-int32 --to-int32",
        "--types int64=int32",
    ),
    Other(
        "keep",
        "numbers that do not fit stay as they are without it: opshift convert IN OUT --types float16",
        "--min-positive-val --max-finite-val --data-max --init-max",
        "",
    ),
    Other(
        "keep",
        "inputs and outputs keep their types without it: opshift convert IN OUT --types float16",
        "--keep-io-types --io-types",
        "",
    ),
    Other(
        "keep",
        "operators keep their types by --keep: opshift convert IN OUT --types float16 --keep op:NAME",
        "--op-block-list --op-types-to-exclude --op-types-block-list",
        "--keep op:{}",
    ),
    Other(
        "keep",
        "nodes keep their types by --keep: opshift convert IN OUT --types float16 --keep node:NAME",
        "--node-block-list --nodes-to-exclude --exclude-nodes",
        "--keep node:{}",
    ),
    Other(
        "inputs",
        "real inputs are given by --inputs: opshift convert IN OUT --types float16 --inputs FILE.npz",
        "--calibration-data --calibration-data-path --calib",
        "--inputs {}",
    ),
)

COMMANDS = {
    "convert IN OUT --opset N": "upgrade downgrade shift version convert-version",
    "convert IN OUT --types float16": "half fp16 float16",
    "optimize IN OUT": "simplify sim slim constant-fold",
    "inline IN OUT": "decompose expand lower",
    "fold IN OUT": "fuse",
    "extract IN OUT --to VALUE": "cut split",
    "merge FIRST SECOND OUT": "compose join concat",
    "verify A B": "compare check test",
    "inspect IN": "info show print summary stats",
}
"""The line to type, by the names that other tools have for the command."""


def name_command(typed: str) -> str:
    """Look up the line to type for a command of another tool; empty if there is none."""
    return next((line for line, names in COMMANDS.items() if typed.lower().replace("_", "-") in names.split()), "")


def answer(parser: argparse.ArgumentParser, option: str, typed: Sequence[str]) -> tuple[str, list[str] | None] | None:
    """Explain what to do instead of an option of another tool; returns the sentence, and the arguments to type."""
    first = _find(parser, option)
    return None if first is None else (first.said, _rewrite(parser, typed))


def _find(parser: argparse.ArgumentParser, option: str) -> Other | None:
    if option in parser._option_string_actions:
        return None
    name = option.replace("_", "-")
    if name in parser._option_string_actions:  # written with underscores
        flag = parser._option_string_actions[name].nargs == 0
        return Other("", f"use {name}", "", name if flag else f"{name} {{}}")
    dests = {action.dest for action in parser._actions}
    return next((other for other in OTHERS if other.needed in dests and name in other.options.split()), None)


def _rewrite(parser: argparse.ArgumentParser, typed: Sequence[str]) -> list[str] | None:
    """Replace all options of other tools in a command; None if one has no replacement."""
    if not typed:
        return None
    first: list[str] = []
    words: list[str] = []
    last: list[str] = []
    of_types = False
    rest = list(typed[1:])
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        other = _find(parser, option) if word.startswith("-") else None
        if other is None:
            words.append(word)
            continue
        if other.instead is None:
            return None
        of_types |= "--types" in other.said and "--types" in parser._option_string_actions
        single = other.instead in ("FIRST", "LAST")
        values = [value] if equals else list(_take_values(rest, single=single))
        if "--keep" in other.instead:
            values = ",".join(values).split(",")
        if single:
            (first if other.instead == "FIRST" else last).extend(values)
        elif "{}" in other.instead:
            if not values or (
                "-shape" in other.instead and not all(re.fullmatch(r"(.+:)?\[?[\w,?]+\]?", v) for v in values)
            ):
                return None
            words += [part.format(v) for v in values for part in other.instead.split()]
        else:
            words += other.instead.split()
    words = first + words + (["--types", "float16"] if of_types and "--types" not in words else [])
    models = [place for place, word in enumerate(words, 1) if word.endswith(MODELS)]
    end = models[-1] if models else len(words)
    return [typed[0], *words[:end], *last, *words[end:]]


def _take_values(rest: list[str], *, single: bool) -> Iterator[str]:
    """Take the values of an option from the front of `rest`; a path of a model is no value."""
    while rest and not rest[0].startswith("-") and (single or not rest[0].endswith(MODELS)):
        yield rest.pop(0)
        if single:
            return


def spell(arguments: Sequence[str]) -> str:
    """Write the line to type, below an error message."""
    return f"\ntype: opshift {shlex.join(arguments)}"

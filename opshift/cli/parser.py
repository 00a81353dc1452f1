"""The command line: verbs and their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import cache

from opshift.cli import options
from opshift.cli.words import COMMAND, Completion, Misuse, Parser, Version

_CODES = (
    "exit codes: 0 done; 1 a defect of opshift; 2 usage; 3 refused, or no engine can run the model to prove it; 4 the "
    "outputs differ; 5 the input cannot be read; 6 the output cannot be written; 130 interrupted. Of many models, the "
    "largest. Nothing is left at the output path unless it is 0."
)

_MODELS = ("model", "before", "after")
_PATHS = (*_MODELS, "paths", "output", "out_dir", "report", "save_inputs", "inputs", "deny", "repro", "learn", "models")
_SHORT = 200
"""Characters of a path that every system opens as it is."""


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What was typed; raises `Misuse` for what has no meaning."""
    typed = sys.argv[1:] if arguments is None else arguments
    parser = _parser(verb(typed))
    if (first := next(iter(typed), "")).startswith("-") and first.partition("=")[
        0
    ] not in parser._option_string_actions:
        parser.unknown([first], _verbs(_parser()))
    options, unknown = parser.parse_known_args(typed)
    own = _verbs(parser)[options.command]
    if hasattr(options, "paths") and not any(each.startswith("-") for each in unknown):
        options.paths += unknown  # argparse takes paths from one place alone, options may stand between them
    elif unknown:
        own.unknown(unknown, _verbs(_parser()))
    if hasattr(options, "paths"):
        _tell_apart(own, options)
    many = getattr(options, "out_dir", None) is not None
    for path in (*getattr(options, "paths", ()), *(getattr(options, name, None) for name in _MODELS)):
        if path == "" or (path == "-" and many):
            raise Misuse(f"{path!r} names no file, which each of several models is", own)
    for name in _MODELS:
        if path := getattr(options, name, None):
            setattr(options, name, _single(path, own))
    for name, held in vars(options).items():
        if name in _PATHS and held:
            setattr(options, name, list(map(_system_path, held)) if isinstance(held, list) else _system_path(held))
    return options


def verb(arguments: Sequence[str]) -> str:
    """The verb that was typed; empty where there is none."""
    first = next(iter(arguments), "")
    return first if first in _VERBS else ""


def _verbs(parser: argparse.ArgumentParser) -> dict[str, Parser]:
    found: dict[str, Parser] = next(a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return found


def _tell_apart(parser: Parser, options: argparse.Namespace) -> None:
    """Which paths are models: the first of two, unless all go to a folder."""
    options.model = options.output = None
    if options.out_dir is None:
        if len(options.paths) > 2:
            raise Misuse("one model and its output, or --out-dir for several models", parser)
        options.model, options.output = [*options.paths, None][:2]


def _system_path(path: str) -> str:
    """A path as the system opens it: Windows wants a prefix in front of long ones."""
    if len(path) < _SHORT or "://" in path or any(wild in path for wild in "*?["):
        return path
    from opshift.passes.model.tensor_data import reachable

    return reachable(path)


def _single(path: str, parser: Parser) -> str:
    """The one model that wildcards stand for."""
    if not any(wild in path for wild in "*?["):
        return path
    from opshift.files.urls import expand_paths

    found = expand_paths([path], folders=False)
    if len(found) > 1:
        raise Misuse(f"{path} stands for {len(found)} models; name one, or --out-dir for all", parser)
    return found[0]


@cache
def _parser(typed: str = "") -> Parser:
    """The parser of all verbs, or of the one that was typed."""
    parser = Parser(
        prog="opshift",
        description="Move ONNX models between opset versions, up and down, and prove that they compute the same.",
        epilog=f"{_CODES} `opshift COMMAND --help` tells the options of a command.",
    )
    parser.add_argument("--version", action=Version, help="print the versions of opshift and of what it runs on")
    parser.add_argument("--print-completion", action=Completion, help="print what completes commands in a shell")
    verbs = parser.add_subparsers(dest="command", required=True, metavar=COMMAND)

    for name in (typed,) if typed else _VERBS:
        what, add_options = _VERBS[name]
        add_options(verbs.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.", usage=_usage(name)))
    return parser


def _usage(verb: str) -> str | None:
    """How a verb of many options is called."""
    named = {"verify": "BEFORE AFTER"} | dict.fromkeys(("convert", "inline", "fold", "optimize"), "PATH [PATH ...]")
    return f"opshift {verb} [options] {named[verb]}" if verb in named else None


def _convert(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument(
        "--opset",
        action="append",
        default=[],
        metavar="N|latest|TARGET|DOMAIN=N",
        help="the opset to reach, the newest, or that of a target; again for another domain",
    )
    options.add_target(parser)
    parser.add_argument(
        "--quantization",
        metavar="qdq|qoperator",
        help="write quantized operators on floats between DequantizeLinear and QuantizeLinear, or as QLinearConv and "
        "QLinearMatMul",
    )
    options.add_modernize(parser)
    options.add_trying(parser)
    options.add_rewriting(parser)


def _inline(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument("--op", action="append", default=[], help="an operator, Name or domain::Name; repeatable")
    parser.add_argument("--deny", metavar="FILE", help="a file of operators, one a line, or a TOML file with `ops`")
    parser.add_argument("--domain", help="all operators of this domain, the model's own functions among them")
    options.add_target(parser)
    parser.add_argument(
        "--portable",
        action="store_true",
        help="all that is not of the default domain, such as operators of com.microsoft and ai.onnx.ml",
    )
    parser.add_argument("--opset", metavar="N", help="also convert to this opset")
    options.add_modernize(parser)
    options.add_trying(parser)
    options.add_rewriting(parser)


def _fold(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument(
        "--op",
        action="append",
        default=[],
        help="an operator to recognise, Name or domain::Name; repeatable (default: all that exporters write as one)",
    )
    parser.add_argument(
        "--opset",
        action="append",
        default=[],
        metavar="N|latest|TARGET|DOMAIN=N",
        help="convert to this opset first, as `convert --modernize` does; without it, the model keeps its own",
    )
    options.add_rewriting(parser)


def _optimize(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    options.add_rewriting(parser, optimizing=False)


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="the model that counts as right")
    parser.add_argument("after", metavar="AFTER", help="the model to compare with it")
    options.add_set(
        parser, "give an input of the first model this value; the second one may have a constant in its place"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--exact", action="store_true", help="only the same values, bit for bit, are equal")
    how.add_argument("--close", action="store_true", help="other rounding is equal, too (the default)")
    parser.add_argument(
        "--map", action="append", metavar="A=B", help="output or input A of BEFORE is B in AFTER. Repeatable"
    )
    options.add_inputs(parser)
    options.add_repro(parser)
    options.add_telling(parser)


def _inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the model to look at")
    parser.add_argument("--target", help="show what this target would refuse, and what would be rewritten for it")
    parser.add_argument("--opset", metavar="N", help="show what would be refused at this opset, and what rewritten")
    parser.add_argument("--reach", action="store_true", help="try each opset, of a large model, too")
    options.add_format(parser)
    options.add_verbose(parser)


def _ledger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--opset", type=int, metavar="N", help="only the changes at this opset of the installed onnx")
    parser.add_argument(
        "--op", action="append", default=[], help="the history of an operator, and the file that tells it; repeatable"
    )
    parser.add_argument("--markdown", action="store_true", help="the whole table, as it stands in docs/support.md")
    parser.add_argument("--definitions", action="store_true", help="what operators become: docs/definitions.md")


def _targets(parser: argparse.ArgumentParser) -> None:
    options.add_format(parser)


def _probe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", required=True, help="onnxruntime, openvino, opencv or tract")
    parser.add_argument("--output", metavar="FILE", help="where to write; without it, to the standard output")
    parser.add_argument("--models", metavar="FOLDER", help="also try the calls in the models of this folder")
    parser.add_argument("--op", action="append", default=[], help="only this operator; repeatable")


_VERBS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "convert": ("convert a model to another opset", _convert),
    "inline": ("replace operators by their definitions", _inline),
    "fold": ("put operators in the place of the nodes that compute them", _fold),
    "optimize": ("compute no more what is constant, computed already, or of no effect", _optimize),
    "verify": ("run two models on the same inputs and compare", _verify),
    "inspect": ("show what a model consists of and which opsets it can reach", _inspect),
    "ledger": ("show what is done about each change of each operator", _ledger),
    "targets": ("list the known targets", _targets),
    "schema": ("print the JSON Schema of what `--format json` prints", lambda parser: None),
    "probe": ("find out what an installed backend reads, and write a target file", _probe),
}

"""Parse the command line: each command with its options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import cache

from opshift.cli import options
from opshift.cli.words import COMMAND, Completion, Misuse, Parser, Version

_CODES = (
    "exit codes: 0 done; 1 a bug in opshift; 2 usage; 3 refused, or not verified; 4 the outputs "
    "differ; 5 cannot read the input; 6 cannot write the output; 130 interrupted. With several "
    "models, the largest. The output exists only if it is 0."
)

_MODELS = ("model", "other", "before", "after")
_PATHS = (
    *_MODELS, "paths", "output", "out_dir", "report", "save_inputs", "inputs", "deny", "repro", "learn", "models",
    "adapter", "keep",
)  # fmt: skip
_SHORT = 200
"""A path with fewer characters needs no prefix on Windows."""


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the arguments of the process, or `arguments`; raises `Misuse` if they are wrong."""
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
        own.unknown(unknown, _verbs(_parser()), typed)
    if hasattr(options, "paths"):
        _split_paths(own, options)
    many = getattr(options, "out_dir", None) is not None
    for path in (*getattr(options, "paths", ()), *(getattr(options, name, None) for name in _MODELS)):
        if path == "" or (path == "-" and many):
            raise Misuse(f"{path!r} is not a file", own)
    for name in _MODELS:
        if path := getattr(options, name, None):
            setattr(options, name, _expand_wildcards(path, own))
    for name, held in vars(options).items():
        if name in _PATHS and held:
            setattr(options, name, list(map(_system_path, held)) if isinstance(held, list) else _system_path(held))
    return options


def verb(arguments: Sequence[str]) -> str:
    """Return the command that was typed; empty if the first argument is none."""
    first = next(iter(arguments), "")
    return first if first in _VERBS else ""


def _verbs(parser: argparse.ArgumentParser) -> dict[str, Parser]:
    found: dict[str, Parser] = next(a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return found


def _split_paths(parser: Parser, options: argparse.Namespace) -> None:
    """Split the paths into a model and its output; with `--out-dir`, all are models."""
    options.model = options.output = None
    if options.out_dir is None:
        if len(options.paths) > 2:
            numbers = [path for path in options.paths if path.isdecimal()]
            if numbers and "--opset" in parser._option_string_actions:
                raise Misuse(f"{numbers[0]!r} is not a model; an opset is given by --opset {numbers[0]}", parser)
            raise Misuse("give one model and its output, or --out-dir for several models", parser)
        options.model, options.output = [*options.paths, None][:2]


def _system_path(path: str) -> str:
    """Put the prefix in front of a long path that Windows needs to open it."""
    if len(path) < _SHORT or "://" in path or any(wild in path for wild in "*?["):
        return path
    from opshift.passes.model.tensor_data import reachable

    return reachable(path)


def _expand_wildcards(path: str, parser: Parser) -> str:
    """Expand wildcards to the one model that they match."""
    if not any(wild in path for wild in "*?["):
        return path
    from opshift.files.urls import expand_paths

    found = expand_paths([path], folders=False)
    if len(found) > 1:
        raise Misuse(f"{path} matches {len(found)} models; give one, or --out-dir for all", parser)
    return found[0]


@cache
def _parser(typed: str = "") -> Parser:
    """Make the parser of all commands, or only of the one that was typed, which is faster."""
    parser = Parser(
        prog="opshift",
        description="Convert ONNX models between opset versions, up and down, and prove that they compute the same.",
        epilog=f"{_CODES} `opshift COMMAND --help` lists the options of a command.",
    )
    parser.add_argument("--version", action=Version, help="print the versions of opshift and its dependencies")
    parser.add_argument("--print-completion", action=Completion, help="print a completion script for a shell")
    verbs = parser.add_subparsers(dest="command", required=True, metavar=COMMAND)

    for name in (typed,) if typed else _VERBS:
        what, add_options = _VERBS[name]
        add_options(verbs.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.", usage=_usage(name)))
    return parser


def _usage(verb: str) -> str | None:
    """Write a short usage line for a command with many options; None: argparse writes it."""
    named = {"verify": "BEFORE AFTER", "inspect": "MODEL [MODEL ...]"} | dict.fromkeys(
        ("convert", "inline", "fold", "optimize", "extract"), "PATH [PATH ...]"
    )
    return f"opshift {verb} [options] {named[verb]}" if verb in named else None


def _convert(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument(
        "--opset",
        action="append",
        default=[],
        metavar="N|latest|TARGET|DOMAIN=N",
        help="convert to this opset, the latest, or a target's; repeat it for another domain",
    )
    options.add_target(parser)
    parser.add_argument(
        "--quantization",
        metavar="qdq|qoperator",
        help="write quantized operators as DequantizeLinear, float operator, QuantizeLinear (qdq), or "
        "as QLinearConv and QLinearMatMul (qoperator)",
    )
    options.add_modernize(parser)
    options.add_trying(parser)
    options.add_common(parser)


def _inline(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument(
        "--op", action="append", default=[], help="replace this operator, Name or domain::Name. Repeatable"
    )
    parser.add_argument(
        "--deny", metavar="FILE", help="replace the operators in this file: one a line, or a TOML file with `ops`"
    )
    parser.add_argument("--domain", help="replace all operators of this domain, model-local functions included")
    options.add_target(parser)
    parser.add_argument(
        "--portable",
        action="store_true",
        help="replace all operators outside the default domain, such as com.microsoft and ai.onnx.ml",
    )
    parser.add_argument("--opset", metavar="N", help="also convert to this opset")
    options.add_modernize(parser)
    options.add_trying(parser)
    options.add_common(parser)


def _fold(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument(
        "--op",
        action="append",
        default=[],
        help="fold nodes into this operator, Name or domain::Name. Repeatable (default: all that exporters write)",
    )
    parser.add_argument(
        "--opset",
        action="append",
        default=[],
        metavar="N|latest|TARGET|DOMAIN=N",
        help="convert to this opset first (default: keep the model's)",
    )
    options.add_common(parser)


def _optimize(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    options.add_common(parser, optimizing=False)


def _extract(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    part = parser.add_argument_group("which part")
    part.add_argument(
        "--to",
        action="append",
        metavar="VALUE|NODE",
        help="the outputs of the part: values, or nodes for their outputs; * stands for any text. Repeatable (default: "
        "the outputs of the model)",
    )
    part.add_argument(
        "--from",
        dest="start",
        action="append",
        metavar="VALUE|NODE",
        help="the inputs of the part. Repeatable (default: the inputs of the model)",
    )
    part.add_argument("--around", metavar="NODE", help="instead of --from and --to: cut out a node and its neighbours")
    part.add_argument("--depth", type=int, metavar="N", help="how many nodes away neighbours may be (default: 2)")
    options.add_opset(parser)
    options.add_common(parser)


def _merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FIRST", help="the first model")
    parser.add_argument("other", metavar="SECOND", help="the second model, which reads outputs of the first")
    parser.add_argument("output", metavar="OUT", help="where to write the joined model")
    parser.add_argument(
        "--connect",
        action="append",
        metavar="OUTPUT=INPUT",
        help="an output of the first model and the input of the second that reads it, or an input that both share. "
        "Repeatable (default: equal names, or the only output and the only input)",
    )
    options.add_opset(parser)
    options.add_common(parser)


def _strip(parser: argparse.ArgumentParser) -> None:
    _weights(parser, "the model to share", "where to write it; .gz is compressed")
    parser.add_argument(
        "--threshold", type=int, metavar="BYTES", help="the smallest size of weights to remove, in bytes (default: 256)"
    )
    options.add_format(parser)


def _fill(parser: argparse.ArgumentParser) -> None:
    _weights(parser, "a model that `strip` wrote", "where to write it")
    options.add_format(parser)


def _weights(parser: argparse.ArgumentParser, what: str, where: str) -> None:
    parser.add_argument("model", metavar="MODEL", help=what)
    parser.add_argument("output", metavar="OUT", help=where)


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="the reference model")
    parser.add_argument("after", metavar="AFTER", help="the model to compare with it")
    options.add_set(parser, "set an input of the first model, which may be a constant in the second")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--exact", action="store_true", help="require the same bits")
    how.add_argument("--close", action="store_true", help="allow other rounding (the default)")
    parser.add_argument(
        "--map",
        action="append",
        metavar="A=B",
        help="compare output (or input) A of BEFORE with B of AFTER. Repeatable",
    )
    options.add_inputs(parser)
    options.add_repro(parser)
    options.add_messages(parser)


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="a model")
    parser.add_argument("after", metavar="AFTER", help="the model to compare with it")
    options.add_report(parser)
    options.add_format(parser)


def _inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the models")
    parser.add_argument("more", nargs="*", metavar="MODEL", help=argparse.SUPPRESS)
    parser.add_argument("--strict", action="store_true", help="also exit with 3 if the target needs a rewritten model")
    parser.add_argument("--target", help="show what this target lacks, and what would change; or `all` of them")
    options.add_sizes(parser)
    parser.add_argument("--opset", metavar="N", help="show what opshift would change, or refuse, to reach this opset")
    parser.add_argument("--reach", action="store_true", help="try all opsets, even for a large model")
    options.add_format(parser)
    options.add_verbose(parser)


def _ledger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--opset", type=int, metavar="N", help="show only the changes at this opset")
    parser.add_argument(
        "--op", action="append", default=[], help="show the history of an operator, and its source file. Repeatable"
    )
    parser.add_argument("--markdown", action="store_true", help="print the whole table, as in docs/support.md")
    parser.add_argument("--definitions", action="store_true", help="print docs/definitions.md")
    parser.add_argument("--types", action="store_true", help="print docs/wide.md: which operators take which types")


def _targets(parser: argparse.ArgumentParser) -> None:
    options.add_format(parser)


def _probe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", required=True, help="the backend's name, such as openvino or mnn")
    options.add_interpreter(parser)
    parser.add_argument("--keep", metavar="FILE", help="save results in this file, and continue from it")
    parser.add_argument(
        "--quick", action="store_true", help="test few samples of each operator, and no other shapes and types"
    )
    parser.add_argument("--output", metavar="FILE", help="where to write (default: standard output)")
    parser.add_argument("--models", metavar="FOLDER", help="also test the calls in the models of this folder")
    parser.add_argument("--op", action="append", default=[], help="test only this operator. Repeatable")


_VERBS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "convert": ("convert a model to another opset", _convert),
    "inline": ("replace operators by their definitions", _inline),
    "fold": ("fold nodes into the operators that they compute", _fold),
    "optimize": ("fold constants, and remove nodes that are unused, repeated or without effect", _optimize),
    "extract": ("cut a part out of a model, of any size", _extract),
    "merge": ("join two models: outputs of the first become inputs of the second", _merge),
    "strip": ("remove the weights of a model, to share it in a bug report", _strip),
    "fill": ("fill a stripped model with random weights", _fill),
    "verify": ("prove that two models compute the same, or show where they differ", _verify),
    "diff": ("show the nodes, attributes, weights and types that differ between two models", _diff),
    "inspect": ("show what is in a model, and which opsets it can reach", _inspect),
    "ledger": ("show how opshift handles each change of each operator", _ledger),
    "targets": ("list the targets that opshift knows", _targets),
    "schema": ("print the JSON Schema of `--format json`", lambda parser: None),
    "probe": ("test what an installed backend supports, and write a target file", _probe),
}

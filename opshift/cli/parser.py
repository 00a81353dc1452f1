"""The command line: verbs and their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import cache

from opshift.cli.words import Completion, Misuse, Parser, Version

_CODES = (
    "exit codes: 0 done; 1 a defect of opshift; 2 usage; 3 refused, or no engine can run the model to prove it; 4 the "
    "outputs differ; 5 the input cannot be read; 6 the output cannot be written; 130 interrupted. Of many models, the "
    "largest. Nothing is left at the output path unless it is 0."
)

_MODELS = ("model", "before", "after")
_PATHS = (*_MODELS, "paths", "output", "out_dir", "report", "save_inputs", "inputs", "deny", "repro", "learn", "models")
_SHORT = 200
"""Characters of a path that every system opens as it is."""


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
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
    for path in (*getattr(options, "paths", ()), *(getattr(options, name, None) for name in _MODELS)):
        if path in ("", "-"):
            raise Misuse(f"{path!r} names no file; models are read from files and written to files", own)
    for name in _MODELS:
        if path := getattr(options, name, None):
            setattr(options, name, _single(path, own))
    for name, held in vars(options).items():
        if name in _PATHS and held:
            setattr(options, name, list(map(_opened, held)) if isinstance(held, list) else _opened(held))
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


def _opened(path: str) -> str:
    """A path as the system opens it: Windows wants a prefix in front of long ones."""
    if len(path) < _SHORT or "://" in path or any(wild in path for wild in "*?["):
        return path
    from opshift.passes.model.tensor_data import reachable

    return reachable(path)


def _single(path: str, parser: Parser) -> str:
    """The one model that wildcards stand for."""
    if not any(wild in path for wild in "*?["):
        return path
    from opshift.files.urls import named

    found = named([path], folders=False)
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
    verbs = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    for name in (typed,) if typed else _VERBS:
        what, add_options = _VERBS[name]
        add_options(verbs.add_parser(name, help=what))
    return parser


def _convert(parser: argparse.ArgumentParser) -> None:
    _add_rewriting(parser)
    _add_modernize(parser)
    parser.add_argument(
        "--opset",
        action="append",
        default=[],
        metavar="N|latest|TARGET|DOMAIN=N",
        help="the opset to reach, the newest, or that of a target; again for another domain",
    )
    parser.add_argument(
        "--quantization",
        metavar="qdq|qoperator",
        help="write quantized operators on floats between DequantizeLinear and QuantizeLinear, or as QLinearConv and "
        "QLinearMatMul",
    )
    _add_target(parser)
    _add_trying(parser)


def _inline(parser: argparse.ArgumentParser) -> None:
    _add_rewriting(parser)
    _add_modernize(parser)
    parser.add_argument("--op", action="append", default=[], help="an operator, Name or domain::Name; repeatable")
    parser.add_argument("--deny", metavar="FILE", help="a file of operators, one a line, or a TOML file with `ops`")
    parser.add_argument("--domain", help="all operators of this domain, the model's own functions among them")
    _add_target(parser)
    _add_trying(parser)
    parser.add_argument(
        "--portable", action="store_true", help="all that is not ONNX's, such as operators of com.microsoft"
    )
    parser.add_argument("--opset", metavar="N", help="also convert to this opset")


def _fold(parser: argparse.ArgumentParser) -> None:
    _add_rewriting(parser)
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


def _optimize(parser: argparse.ArgumentParser) -> None:
    _add_rewriting(parser, optimizing=False)


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before")
    parser.add_argument("after")
    _add_set(parser, "give an input of the first model this value; the second one may have a constant in its place")
    parser.add_argument("--close", action="store_true", help="allow for other rounding, not only for other kernels")
    _add_inputs(parser)
    _add_report(parser)
    _add_repro(parser)
    _add_format(parser)
    _add_working(parser)


def _inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model")
    parser.add_argument("--target", help="show what this target would refuse, and what would be rewritten for it")
    parser.add_argument("--opset", metavar="N", help="show what would be refused at this opset, and what rewritten")
    parser.add_argument("--reach", action="store_true", help="try each opset, of a large model, too")
    _add_format(parser)
    _add_verbose(parser)


def _ledger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--opset", type=int, metavar="N", help="only the changes at this opset of the installed onnx")
    parser.add_argument(
        "--op", action="append", default=[], help="the history of an operator, and the file that tells it; repeatable"
    )
    parser.add_argument("--markdown", action="store_true", help="the whole table, as it stands in docs/support.md")
    parser.add_argument("--definitions", action="store_true", help="what operators become: docs/definitions.md")


def _targets(parser: argparse.ArgumentParser) -> None:
    _add_format(parser)


def _probe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", required=True, help="onnxruntime, openvino, opencv or tract")
    parser.add_argument("--output", metavar="FILE", help="where to write; without it, to the standard output")
    parser.add_argument("--models", metavar="FOLDER", help="also try the calls in the models of this folder")
    parser.add_argument("--op", action="append", default=[], help="only this operator; repeatable")


def _add_rewriting(parser: argparse.ArgumentParser, *, optimizing: bool = True) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="the model, and where to write it; without the latter, beside the model under a telling name. With "
        "--out-dir, any number of models",
    )
    parser.add_argument(
        "--out-dir",
        metavar="DIR",
        help="write each model into this folder under its own name, external data beside it; a failure of one does not "
        "stop the others, and the exit code is the largest of all. Models and folder can be URLs that fsspec opens",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="how many models at once (default: 1); -1 for all cores")
    parser.add_argument(
        "--backend",
        choices=("loky", "threading", "dask"),
        help="what runs the jobs: processes or threads of joblib (default: loky, processes), or all of the Dask "
        "cluster whose scheduler is at DASK_SCHEDULER_ADDRESS",
    )
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
    if optimizing:
        parser.add_argument(
            "--optimize",
            action="store_true",
            help="also compute no more what is constant, computed already, or of no effect",
        )
    _add_fixing(parser)
    parser.add_argument("--ir-version", type=int, metavar="N", help="the IR version to write; the opset may stay")
    parser.add_argument("--no-verify", action="store_true", help="do not run both forms")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done; write nothing")
    _add_inputs(parser)
    _add_report(parser)
    _add_repro(parser)
    _add_format(parser)
    _add_working(parser)


def _add_fixing(parser: argparse.ArgumentParser) -> None:
    """What is fixed before anything else."""
    parser.add_argument(
        "--fix-shape",
        action="append",
        metavar="NAME:1,3,224,224|DIM=4,DIM=128",
        help="fix the sizes of an input or of symbolic dimensions in the file, and compute what follows. Repeatable",
    )
    _add_set(parser, "make a constant of an input, which is asked for no more, and compute what follows")
    parser.add_argument(
        "--rebatch",
        metavar="N|dynamic",
        help="take so many samples at once, or any number, where nothing mixes them; the source is run once a sample",
    )
    parser.add_argument(
        "--annotate", action="store_true", help="declare types and sizes of the values between, as far as they follow"
    )


def _add_set(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE|NAME=FILE.npy",
        help=f"{what}: a number, true or false, a text, a list in brackets, or an array in a file. Repeatable",
    )


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        help="replace all that this target lacks, at an opset and an IR version that it reads: a name (see `targets`) "
        "or a TOML file",
    )


def _add_trying(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--try",
        action="store_true",
        dest="try_",
        help="run the result in the target's backend, which has to be installed, and replace what it does not run "
        "until it agrees with the source, or nothing is left to be tried",
    )
    parser.add_argument("--tries", type=int, metavar="N", help="how often at most (default: 40)")
    parser.add_argument("--seconds", type=float, metavar="S", help="how long at most (default: 300)")
    parser.add_argument("--learn", metavar="FILE.toml", help="keep what was found, as a target file")


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report",
        metavar="FILE.html",
        help="also write what was done and what was seen as one page, which fetches nothing",
    )


def _add_repro(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repro",
        metavar="DIR",
        help="where the outputs differ, write the smallest models that still do, with inputs, outputs and a command",
    )


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    """What to verify on."""
    parser.add_argument(
        "--inputs",
        metavar="PATH",
        help="run on these: a .npz of arrays by name, a .npy for a model of one input, or a folder of input_0.pb and "
        "so on, or of test_data_set_0 and so on (default: numbers drawn, of sizes that the model runs on)",
    )
    parser.add_argument(
        "--input-shape",
        action="append",
        metavar="NAME:1,3,224,224|DIM=4,DIM=128",
        help="run on these sizes, of an input or of symbolic dimensions; it changes nothing in the file. Repeatable",
    )
    parser.add_argument(
        "--val-range",
        action="append",
        metavar="NAME:[LEAST,LARGEST]",
        help="draw the numbers of an input from this range; without a name, those of all. Repeatable",
    )
    parser.add_argument("--runs", type=int, metavar="N", help="on how many sets of inputs to run (default: 3)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn (default: 0)")
    parser.add_argument(
        "--save-inputs", metavar="PATH", help="keep what both ran on: a .npz, or a folder of test_data_set_0 and so on"
    )
    parser.add_argument(
        "--engine",
        metavar="NAME|NAME,NAME",
        help="run both in onnxruntime, reference or openvino, or the first in one and the second in another (default: "
        "onnxruntime, and onnx.reference for what it does not load)",
    )
    for name, what in (("--rtol", "times the magnitude of the source's element"), ("--atol", "in all")):
        parser.add_argument(
            name,
            action="append",
            metavar="[OUTPUT:]X",
            help=f"let an output, or without a name all, differ by X {what}, in the place of the bounds. Repeatable",
        )


def _add_modernize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--modernize", action="store_true", help="then put operators in the place of what computes them, as `fold` does"
    )


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json is for pipelines")


def _add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-v", "--verbose", action="store_true", help="list each refusal, not each kind of them")


def _add_working(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="list each refusal, not each kind of them, and say on the standard error stream what is being done",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only what went wrong, and JSON")


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

"""Options that several verbs take, in the groups by which their help shows them."""

from __future__ import annotations

import argparse
from typing import TypeAlias

Holder: TypeAlias = argparse._ActionsContainer


def add_paths(parser: Holder) -> None:
    """Models, and where they go."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="the model, and where to write it; without the latter, beside the model under a telling name. With "
        "--out-dir, any number of models. `-` is the standard input or output; a link is followed, and stays one",
    )


def add_rewriting(parser: Holder, *, optimizing: bool = True) -> None:
    """What all verbs take that write a model, by what it is about."""
    beside = parser.add_argument_group("what else is done")
    if optimizing:
        beside.add_argument(
            "--optimize",
            action="store_true",
            help="also compute no more what is constant, computed already, or of no effect",
        )
    add_fixing(beside)
    beside.add_argument("--ir-version", type=int, metavar="N", help="the IR version to write; the opset may stay")
    add_writing(parser.add_argument_group("where it is written"))
    proof = parser.add_argument_group("how it is proved")
    proof.add_argument("--no-verify", action="store_true", help="do not run both forms")
    add_inputs(proof)
    add_repro(proof)
    add_telling(parser)


def add_telling(parser: Holder) -> None:
    """What is said of it."""
    told = parser.add_argument_group("what is told")
    add_report(told)
    add_format(told)
    add_working(told)


def add_writing(parser: Holder) -> None:
    """Where results go, of one model and of many."""
    what = "list the stages and what they would change; write nothing"
    parser.add_argument("--dry-run", action="store_true", help=what)
    parser.add_argument("--in-place", action="store_true", help="replace the model itself, at once or not at all")
    parser.add_argument(
        "--out-dir",
        metavar="DIR",
        help="write each model into this folder under its own name, external data beside it; a failure of one does not "
        "stop the others, and the exit code is the largest of all. Models and folder can be URLs that fsspec opens",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="how many models at once, one a core at most (default: 1); -1 for all cores",
    )
    parser.add_argument(
        "--backend",
        choices=("loky", "threading", "dask"),
        help="what runs the jobs: processes (loky, the default), threads of joblib, or all of the Dask "
        "cluster whose scheduler is at DASK_SCHEDULER_ADDRESS",
    )
    parser.add_argument(
        "--nchwc-width",
        type=int,
        choices=(8, 16),
        help="how wide the blocks of channels are in a model that onnxruntime saved at its full level, where its sizes "
        "do not tell: as the vectors of the machine that saved it, 8 (AVX2) or 16 (AVX-512, NEON)",
    )
    parser.add_argument(
        "--external-data",
        choices=("keep", "copy", "all", "none"),
        help="keep external data where they are, copy their files along, put all large tensors into one data file, or "
        "none; without it, keep them for an output in the same folder and copy them otherwise",
    )
    parser.add_argument(
        "--threshold",
        type=int,
        metavar="BYTES",
        help="the least size of a tensor that `--external-data all` puts into the data file (default: 1024)",
    )


def add_sizes(parser: Holder) -> None:
    """Sizes and inputs that are fixed."""
    parser.add_argument(
        "--fix-shape",
        action="append",
        metavar="NAME:1,3,224,224|DIM=4,DIM=128",
        help="fix the sizes of an input or of symbolic dimensions in the file, and compute what follows. Repeatable",
    )
    add_set(parser, "make a constant of an input, which is asked for no more, and compute what follows")


def add_fixing(parser: Holder) -> None:
    """What is fixed before anything else."""
    add_sizes(parser)
    parser.add_argument(
        "--rebatch",
        metavar="N|dynamic",
        help="take so many samples at once, or any number, where nothing mixes them; the source is run once a sample",
    )
    parser.add_argument(
        "--annotate", action="store_true", help="declare types and sizes of the values between, as far as they follow"
    )
    parser.add_argument(
        "--zipmap", choices=("tensor",), help="make the output of ZipMap, a list of maps, the scores that go into it"
    )
    parser.add_argument(
        "--map",
        choices=("tensor",),
        help="make the maps that CastMap and DictVectorizer read their values, in the order of the keys",
    )


def add_set(parser: Holder, what: str) -> None:
    """What inputs are."""
    parser.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE|NAME=FILE.npy",
        help=f"{what}: a number, true or false, a text, a list in brackets, or an array in a file. Repeatable",
    )


def add_target(parser: Holder) -> None:
    """What has to read it."""
    parser.add_argument(
        "--target",
        help="replace all that this target lacks, at an opset and an IR version that it reads: a name (see `targets`) "
        "or a TOML file",
    )


def add_interpreter(parser: Holder) -> None:
    """Where a backend is that has an interpreter of its own."""
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the interpreter that has the backend, as mnn-env/bin/python (default: OPSHIFT_PYTHON_MNN and the like)",
    )
    parser.add_argument("--adapter", metavar="FILE", help="a file of yours that opens models in a backend")


def add_trying(parser: Holder) -> None:
    """How it is tried there."""
    parser.add_argument(
        "--try",
        action="store_true",
        dest="try_",
        help="run the result in the target's backend, which has to be installed, and replace what it does not run "
        "until it agrees with the source, or nothing is left to be tried",
    )
    add_interpreter(parser)
    parser.add_argument("--tries", type=int, metavar="N", help="how often at most (default: 40)")
    parser.add_argument("--seconds", type=float, metavar="S", help="how long at most (default: 300)")
    parser.add_argument("--learn", metavar="FILE.toml", help="keep what was found, as a target file")


def add_report(parser: Holder) -> None:
    """A page about it."""
    parser.add_argument(
        "--report",
        metavar="FILE.html",
        help="also write what was done and what was seen as one page, which fetches nothing",
    )


def add_repro(parser: Holder) -> None:
    """What still differs."""
    parser.add_argument(
        "--repro",
        metavar="DIR",
        help="where the outputs differ, write the smallest models that still do, with inputs, outputs and a command",
    )
    parser.add_argument(
        "--evidence",
        metavar="FILE",
        help="write what the proof rests on: digests, engines, each changed part with its bound; `verify` with a file "
        "that is there proves it again",
    )


def add_inputs(parser: Holder) -> None:
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
    parser.add_argument("--seed", type=int, metavar="N", help="of what is drawn (default: 0)")
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


def add_modernize(parser: Holder) -> None:
    """What is put back."""
    parser.add_argument(
        "--modernize", action="store_true", help="then put operators in the place of what computes them, as `fold` does"
    )


def add_format(parser: Holder) -> None:
    """For whom."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json is for pipelines")


def add_verbose(parser: Holder) -> None:
    """How much of refusals."""
    parser.add_argument("-v", "--verbose", action="store_true", help="list each refusal, not each kind of them")


def add_working(parser: Holder) -> None:
    """How much."""
    parser = parser.add_mutually_exclusive_group()
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="list each stage with its time, and each refusal; say on the standard error stream what is being done",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only what went wrong, and JSON")

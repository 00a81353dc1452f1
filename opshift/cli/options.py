"""Options that several commands take, in the groups of their help."""

from __future__ import annotations

import argparse
from typing import TypeAlias

Holder: TypeAlias = argparse._ActionsContainer


def add_paths(parser: Holder) -> None:
    """Add the paths of models and output."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="the model and the output; without an output, opshift names a file beside the model. With "
        "--out-dir, any number of models. `-` is standard input or output. Links are followed and "
        "kept",
    )


def add_common(parser: Holder, *, optimizing: bool = True) -> None:
    """Add the options of all commands that write a model."""
    beside = parser.add_argument_group("other changes")
    if optimizing:
        beside.add_argument(
            "--optimize",
            action="store_true",
            help="also optimize: fold constants, remove nodes that are unused, repeated or without effect",
        )
    add_model_options(beside)
    add_types(beside)
    beside.add_argument("--ir-version", type=int, metavar="N", help="write this IR version; the opset does not change")
    add_output(parser.add_argument_group("output"))
    proof = parser.add_argument_group("verification")
    proof.add_argument("--no-verify", action="store_true", help="do not verify the result")
    add_inputs(proof)
    add_repro(proof)
    add_messages(parser)


def add_messages(parser: Holder) -> None:
    """Add options of reports and messages."""
    told = parser.add_argument_group("messages")
    add_report(told)
    add_format(told)
    add_verbosity(told)


def add_output(parser: Holder) -> None:
    """Add options of how and where results are written, of one model or of many."""
    what = "list the stages and their changes, but write nothing"
    parser.add_argument("--dry-run", action="store_true", help=what)
    parser.add_argument("--in-place", action="store_true", help="replace the model file, all or nothing")
    parser.add_argument(
        "--out-dir",
        metavar="DIR",
        help="write each model into this folder under its own name, with its external data. If one fails, "
        "the others go on; the exit code is the largest of all. Models and folder can be fsspec URLs",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="convert N models at a time, at most one a core (default: 1); -1: all cores",
    )
    parser.add_argument(
        "--backend",
        choices=("loky", "threading", "dask"),
        help="run jobs in processes (loky, the default), in threads, or on the Dask cluster at DASK_SCHEDULER_ADDRESS",
    )
    parser.add_argument(
        "--nchwc-width",
        type=int,
        choices=(8, 16),
        help="channels in a block, for a model that onnxruntime saved fully optimized: 8 if the saving "
        "machine had AVX2, 16 with AVX-512 or NEON. Needed only if the sizes do not tell",
    )
    parser.add_argument(
        "--external-data",
        choices=("keep", "copy", "all", "none"),
        help="keep: refer to the same data files; copy: copy them; all: put large tensors into one new "
        "data file; none: put them into the model (default: keep in the same folder, else copy)",
    )
    parser.add_argument(
        "--threshold",
        type=int,
        metavar="BYTES",
        help="with `--external-data all`, leave smaller tensors in the model (default: 1024)",
    )
    parser.add_argument("--shard", metavar="SIZE", help="split data files at this size, such as 2GB or 500MB")
    parser.add_argument("--dedupe", action="store_true", help="store equal weights once")


def add_sizes(parser: Holder) -> None:
    """Add options that fix sizes and inputs."""
    parser.add_argument(
        "--fix-shape",
        action="append",
        metavar="NAME:1,3,224,224|DIM=4,DIM=128",
        help="fix the sizes of an input or of symbolic dimensions, and fold what becomes constant. Repeatable",
    )
    add_set(parser, "make an input a constant, and fold what becomes constant")


def add_model_options(parser: Holder) -> None:
    """Add the options that `with_options` of `passes/goals.py` reads."""
    add_sizes(parser)
    parser.add_argument(
        "--rebatch",
        metavar="N|dynamic",
        help="change the batch size to N, or make it dynamic; refused if samples influence each other",
    )
    parser.add_argument(
        "--annotate", action="store_true", help="write inferred types and shapes of all values into the model"
    )
    parser.add_argument(
        "--rename",
        action="append",
        metavar="OLD=NEW",
        help="rename an input, an output or a symbolic dimension; * stands for any text on both sides. "
        "Repeatable; other options use the new names",
    )
    parser.add_argument(
        "--add-output",
        action="append",
        metavar="VALUE|NODE",
        help="make an inner value an output, named by itself or by its node; * stands for any text. Repeatable",
    )
    parser.add_argument(
        "--drop-output",
        action="append",
        metavar="OUTPUT",
        help="remove an output, and the nodes that only it needs; * stands for any text. Repeatable",
    )
    parser.add_argument(
        "--unroll",
        type=int,
        metavar="N",
        help="unroll Loops, Scans, LSTMs, GRUs and RNNs of at most N iterations, if the number is known",
    )
    parser.add_argument(
        "--if-to-where",
        type=int,
        metavar="N",
        help="replace an If by Where if its branches have at most N nodes, none of which can fail",
    )
    parser.add_argument(
        "--zipmap", choices=("tensor",), help="return the scores as a tensor, instead of ZipMap's list of maps"
    )
    parser.add_argument(
        "--map",
        choices=("tensor",),
        help="take the values of a map as a tensor, in the order of the keys, for CastMap and DictVectorizer",
    )


def add_types(parser: Holder) -> None:
    """Add options that change element types."""
    parser.add_argument(
        "--types",
        metavar="TYPE|TYPE=TYPE,...|target",
        help="change element types: float16 or bfloat16 (of float32), float32 (back again), float64=float32, "
        "int64=int32; target: what --target needs, such as int32 where it reads no int64",
    )
    parser.add_argument(
        "--interface",
        action="append",
        metavar="keep|narrow|input:NAME=TYPE|TYPE=TYPE",
        help="types of inputs and outputs: keep (the default), narrow, or input:NAME=TYPE for one. Or "
        "store a type that the opset lacks in a wider one, with explicit rounding: float8=float, "
        "int4=int8, bfloat16=float. Repeatable",
    )
    parser.add_argument(
        "--keep",
        action="append",
        metavar="PATTERN|@FILE",
        help="keep the types of these nodes: op:Softmax, node:*head*, value:y, or a file of patterns. Repeatable",
    )
    parser.add_argument(
        "--only", action="append", metavar="PATTERN|@FILE", help="change only the types of these nodes. Repeatable"
    )
    parser.add_argument(
        "--budget",
        action="append",
        metavar="[OUTPUT:]X",
        help="how far an output may move, as RMS of the difference over RMS of the output (default: 0.01, "
        "for bfloat16 0.04); nodes that move it further keep their types. Repeatable",
    )


def add_set(parser: Holder, what: str) -> None:
    """Add `--set`; `what` begins its help."""
    parser.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE|NAME=FILE.npy",
        help=f"{what}. A value is a number, true, false, a string, a list in brackets, or an array in a "
        "file. Repeatable",
    )


def add_opset(parser: Holder) -> None:
    """Add `--opset` of commands whose first aim is something else."""
    parser.add_argument(
        "--opset",
        action="append",
        default=[],
        metavar="N|latest|TARGET|DOMAIN=N",
        help="also convert to this opset, `latest`, or a target's opset; repeat for other domains",
    )


def add_target(parser: Holder) -> None:
    parser.add_argument(
        "--target",
        help="convert for this target: reach its opset and IR version, and replace operators that it lacks. "
        "A name (see `opshift targets`) or a TOML file",
    )


def add_interpreter(parser: Holder) -> None:
    """Add options that find a backend in another Python environment."""
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the interpreter that has the backend, such as mnn-env/bin/python (default: the variable "
        "OPSHIFT_PYTHON_NAME, such as OPSHIFT_PYTHON_MNN)",
    )
    parser.add_argument("--adapter", metavar="FILE", help="your Python file that opens models in the backend")


def add_trying(parser: Holder) -> None:
    parser.add_argument(
        "--try",
        action="store_true",
        dest="try_",
        help="run the result in the installed backend, and replace what fails until outputs agree with the source",
    )
    add_interpreter(parser)
    parser.add_argument("--tries", type=int, metavar="N", help="with --try: run at most N times (default: 40)")
    parser.add_argument("--seconds", type=float, metavar="S", help="with --try: stop after S seconds (default: 300)")
    parser.add_argument("--learn", metavar="FILE.toml", help="with --try: save what was learnt as a target file")


def add_report(parser: Holder) -> None:
    parser.add_argument(
        "--report",
        metavar="FILE.html",
        help="also write an HTML report, one self-contained file",
    )


def add_repro(parser: Holder) -> None:
    """Add options that write what the proof found."""
    parser.add_argument(
        "--repro",
        metavar="DIR",
        help="if outputs differ, write the smallest models that still differ, with inputs and a command",
    )
    parser.add_argument(
        "--evidence",
        metavar="FILE",
        help="write a JSON record of the proof: digests, engines, each changed part with its tolerance. "
        "`opshift verify` with an existing record repeats the proof",
    )


def add_inputs(parser: Holder) -> None:
    """Add options of the proof: inputs, engines, tolerances."""
    parser.add_argument(
        "--inputs",
        action="append",
        metavar="PATH",
        help="verify on these inputs: a .npz of arrays by name, a .npy for a single input, or a folder "
        "of input_0.pb, ... or test_data_set_0, ... (default: random inputs). Repeatable",
    )
    parser.add_argument(
        "--input-shape",
        action="append",
        metavar="NAME:1,3,224,224|DIM=4,DIM=128",
        help="verify with inputs of these sizes; the file does not change. Repeatable",
    )
    parser.add_argument(
        "--val-range",
        action="append",
        metavar="NAME:[LEAST,LARGEST]",
        help="draw random inputs from this range; without a name, all of them. Repeatable",
    )
    parser.add_argument("--runs", type=int, metavar="N", help="verify on N sets of inputs (default: 3)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of random inputs (default: 0)")
    parser.add_argument(
        "--save-inputs",
        metavar="PATH",
        help="save the inputs that were used: a .npz, or a folder of test_data_set_0, ...",
    )
    parser.add_argument(
        "--engine",
        metavar="NAME|NAME,NAME",
        help="run models in onnxruntime, reference or openvino; two names: the first model in one, the "
        "second in the other (default: onnxruntime; onnx.reference for models that it does not load)",
    )
    for name, what in (("--rtol", "relative to the source's value"), ("--atol", "absolute")):
        parser.add_argument(
            name,
            action="append",
            metavar="[OUTPUT:]X",
            help=f"let an output (without a name, all) differ by X, {what}, instead of the computed tolerance. "
            "Repeatable",
        )


def add_modernize(parser: Holder) -> None:
    parser.add_argument(
        "--modernize", action="store_true", help="then fold nodes into newer operators, as `opshift fold` does"
    )


def add_format(parser: Holder) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json is for scripts")


def add_verbose(parser: Holder) -> None:
    parser.add_argument("-v", "--verbose", action="store_true", help="list every refusal")


def add_verbosity(parser: Holder) -> None:
    parser = parser.add_mutually_exclusive_group()
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="list every change and refusal, and each stage with its time; show progress on stderr",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors, and JSON")

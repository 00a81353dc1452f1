"""`python -m tests.lab types`: convert the cases of `tests/types` to half precision, and print what is wrong with each.

`--corpus nodes` takes ONNX's node tests, `exported` the exports of `tests/exported`, `random` models that are drawn,
`networks` those with large and small values, or the models of a folder, with `NAME.npz` beside `NAME.onnx`. Their results have to be valid, close, and of the same
interface; a refusal that says why is right, too, and is counted.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
from onnx import ModelProto

from tests.types import cases as _cases  # noqa: F401  adds them
from tests.types import corpora, judge, networks, peers
from tests.types.case import CASES, Case

KINDS = {"float16": ("fp16", judge.FLOAT16), "bfloat16": ("bf16", judge.BFLOAT16)}


def main(arguments: list[str]) -> int:
    """Print a line for each case that is wrong, and a count."""
    options = _parsed(arguments)
    if options.corpus:
        return _corpus(options)
    kind, wanted = KINDS[options.kind]
    chosen = {name: case for name, case in CASES.items() if re.search(options.name, name)}
    right = casts = 0
    seconds = 0.0
    for name, done in _converted(options, chosen, kind):
        seconds += done.seconds
        if done.model is None:
            print(f"{name}: {done.error}", flush=True)
            continue
        model = judge.sort(done.model) if options.sort else done.model
        found = judge.judge(chosen[name], model, wanted, narrow=options.interface == "narrow")
        if options.keep:
            options.keep.mkdir(exist_ok=True)
            onnx.save(model, options.keep / f"{name}.onnx")
        for sentence in found.wrong:
            print(f"{name}: {sentence}", flush=True)
        right += not found.wrong
        casts += found.casts
    print(f"{right} of {len(chosen)} are right, {casts} casts, {seconds:.1f} s")
    return 0 if right == len(chosen) else 1


def _corpus(options: argparse.Namespace) -> int:
    """Convert models that others wrote by the API."""
    wanted, counts = KINDS[options.kind][1], Counter[str]()
    end = time.monotonic() + options.seconds
    for name, model, feeds in _models(options):
        if time.monotonic() > end:
            break
        if not re.search(options.name, name) or not corpora.holds_float32(model):
            continue
        try:
            made = _by_api(model, options)
        except Exception as error:
            refused = type(error).__name__ == "Refused"
            counts["refused" if refused else "failed"] += 1
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
            continue
        try:
            found = judge.judge_model(model, made, [feeds], wanted)
        except Exception as error:
            counts["not judged"] += 1
            wrong = [*judge.invalid(made)] if not judge.invalid(model) else []
            print(*(f"{name}: {sentence}" for sentence in wrong), sep="\n", end="\n" if wrong else "", flush=True)
            if options.all:
                print(f"{name}: not judged: {' '.join(str(error).split())[:200]}", flush=True)
            continue
        known = {sentence.split(":")[0] for sentence in judge.invalid(model)}  # of the source already
        wrong = [sentence for sentence in found.wrong if sentence.split(":")[0] not in known]
        counts["wrong" if wrong else "right"] += 1
        counts["casts"] += found.casts
        if options.keep and wrong:
            options.keep.mkdir(exist_ok=True)
            onnx.save(made, options.keep / f"{name.replace('/', '_').replace(' ', '_')}.onnx")
        for sentence in wrong:
            print(f"{name}: {sentence}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return int(counts["wrong"] + counts["failed"] > 0)


def _models(options: argparse.Namespace) -> Iterator[corpora.Found]:
    if options.corpus in CORPORA:
        return CORPORA[options.corpus](options)
    return corpora.folder(Path(options.corpus))


CORPORA: dict[str, Callable[[argparse.Namespace], Iterator[corpora.Found]]] = {
    "nodes": lambda _: corpora.nodes(),
    "exported": lambda _: corpora.exported(),
    "random": lambda options: corpora.drawn(options.seed),
    "networks": lambda options: networks.networks(options.seed),
}


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab types", description=__doc__)
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--opshift", action="store_true", help="opshift.convert_version in this process; the default")
    whose.add_argument("--shell", action="store_true", help="opshift convert --types, with the proof")
    whose.add_argument("--peer", metavar="NAME[=PYTHON]", help=f"one of {', '.join(peers.PEERS)}, by another Python")
    parser.add_argument("--kind", choices=list(KINDS), default="float16")
    parser.add_argument("--interface", choices=["keep", "narrow"], default="keep", help="of --shell")
    parser.add_argument("--name", default="", help="only the cases that this expression finds")
    parser.add_argument("--sort", action="store_true", help="put the nodes of the results in order first")
    parser.add_argument("--corpus", help=f"{', '.join(CORPORA)}, or a folder, in the place of the cases")
    parser.add_argument("--seconds", type=float, default=600, help="of --corpus")
    parser.add_argument(
        "--seed", type=int, default=0, help="of --corpus random and networks: those of the seeds that follow"
    )
    parser.add_argument("--all", action="store_true", help="of --corpus: say what cannot be judged as well")
    parser.add_argument("--keep", type=Path, help="write the results to this folder")
    return parser.parse_args(arguments)


def _converted(
    options: argparse.Namespace, chosen: dict[str, Case], kind: str
) -> Iterator[tuple[str, peers.Converted]]:
    models = {name: case.model for name, case in chosen.items()}
    if options.peer:
        name, _, python = options.peer.partition("=")
        yield from peers.convert(name, models, python or sys.executable, kind)
    else:
        convert = _by_shell if options.shell else _by_api
        for name, model in models.items():
            begun, made, error = time.perf_counter(), None, ""
            try:
                made = convert(model, options)
            except Exception as found:
                error = " ".join(f"{type(found).__name__}: {found}".split())[:300]
            yield name, peers.Converted(made, error, time.perf_counter() - begun)


def _opset(model: ModelProto, options: argparse.Namespace) -> int:
    """Many operators take bfloat16 from opset 22 on."""
    return max(model.opset_import[0].version, 22 if options.kind == "bfloat16" else 0)


def _by_api(model: ModelProto, options: argparse.Namespace) -> ModelProto:
    import opshift

    return opshift.convert_version(model, _opset(model, options), types=options.kind)


def _by_shell(model: ModelProto, options: argparse.Namespace) -> ModelProto:
    import contextlib
    import io

    from opshift.cli.main import main as opshift_main

    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/in.onnx", f"{folder}/out.onnx"
        onnx.save(model, source)
        arguments = ["convert", source, target, "--types", options.kind, "--interface", options.interface]
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            code = opshift_main([*arguments, "--opset", str(_opset(model, options))])
        if code:
            raise RuntimeError(f"exit {code}: {told.getvalue()}")
        return onnx.load(target)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

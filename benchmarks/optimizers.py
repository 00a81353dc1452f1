"""`python -m benchmarks optimizers [--models FOLDER] [--name REGEX] [--runs N] [--markdown]`.

This project and its peers on models that exporters wrote: those of `tests/exported`, or a folder that one of its
makers filled with larger ones (`python -m tests.lab make-torch --large FOLDER`). Each round runs every contender
once, as a whole process, in turn; seconds are those of the processor. Then the original and all results run in turn in
one process, with onnxruntime's graph optimizations off and on. A result must compute what the original computes.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
import re
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto
from rich.table import Table

from benchmarks import latency
from benchmarks.conversions import once
from tests.exported import store

SCRIPT = (
    "import sys, onnx_ir, onnxscript.optimizer as o, onnxscript.rewriter as r;"
    "m = onnx_ir.load(sys.argv[1]); o.optimize(m); r.rewrite(m); onnx_ir.save(m, sys.argv[2])"
)
OURS = "opshift fold --optimize"
CONTENDERS = {
    OURS: ["-m", "opshift", "fold", "--optimize", "--no-verify"],
    "the same, at opset 23": ["-m", "opshift", "fold", "--optimize", "--no-verify", "--opset", "23"],
    "onnxsim": ["-m", "onnxsim"],
    "onnxslim": ["-m", "onnxslim"],
    "onnxscript's optimizer and rewriter": ["-c", SCRIPT],
}
PACKAGES = {"onnxsim": "onnxsim", "onnxslim": "onnxslim", "onnxscript's optimizer and rewriter": "onnxscript"}
CHOSEN = (
    r"torch/(cnn|resnet|mobilenet|lstm|norms|activations)/torchscript_raw|torch/(cnn|group_norm|decoder)/dynamo-18"
    r"|torch/encoder.dynamic/(torchscript_raw|dynamo-18)|transformers/(bert|llama).sdpa.dynamic/(torchscript-17|dynamo-18)"
    r"|transformers/(t5.eager|whisper.eager)/dynamo-18|tensorflow/(encoder.dynamic|norms)/tf2onnx-13"
    r"|keras/(cnn|encoder|recurrent)/tf2onnx-13|jax/(encoder|llama|image_norms)/jax2onnx_decomposed-21"
)
SLOWER = 1.05  # beyond what medians of equal models differ by


@dataclass(frozen=True)
class Subject:
    """A model with inputs."""

    name: str
    model: ModelProto
    feeds: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Row:
    """One contender on one model; the original is a contender that takes no time.

    `off` and `on` are seconds in onnxruntime, None where the result does not load or computes something else.
    """

    model: str
    contender: str
    nodes: int
    seconds: float | None
    off: float | None = None
    on: float | None = None
    wrong: str = ""


def committed(name: str = "") -> Iterator[Subject]:
    """Those of `tests/exported`: a choice of all exporters, or what the expression finds."""
    for framework in store.frameworks():
        for export in store.read(framework):
            if re.search(name or f"^({CHOSEN})", export.name):
                yield Subject(export.name, export.model, export.feeds)


def of_folder(folder: Path, name: str = "") -> Iterator[Subject]:
    """What a maker wrote with `--large`."""
    for path in sorted(folder.glob("*.onnx")):
        if re.search(name, path.stem):
            with np.load(path.with_suffix(".npz")) as held:
                yield Subject(path.stem, onnx.load(path), dict(held))


def measure(
    subjects: Sequence[Subject], runs: int, limit: int, progress: Callable[[str, int, int], None] | None = None
) -> Iterator[Row]:
    """The rows of each model: the original, and each contender that is installed."""
    contenders = {k: v for k, v in CONTENDERS.items() if importlib.util.find_spec(PACKAGES.get(k, "opshift"))}
    with tempfile.TemporaryDirectory() as folder:
        for place, subject in enumerate(subjects):
            if progress is not None:
                progress(subject.name, place, len(subjects))
            yield from _measured(subject, contenders, Path(folder), runs, limit)


def _measured(subject: Subject, contenders: dict[str, list[str]], folder: Path, runs: int, limit: int) -> Iterator[Row]:
    source = folder / "in.onnx"
    onnx.save(subject.model, source)
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    made: dict[str, ModelProto] = {}
    wrong: dict[str, str] = {}
    for number in range(runs + 1):
        for name, command in contenders.items():
            if name not in wrong:
                output = folder / "out.onnx"
                try:
                    took = once([*command, str(source), str(output)], folder, limit)
                    made[name] = onnx.load(output)
                except (SystemExit, FileNotFoundError) as error:
                    wrong[name] = f"fails: {' '.join(str(error).split())[-100:]}"
                    continue
                finally:
                    output.unlink(missing_ok=True)
                if took is None:
                    wrong[name] = f"takes more than {limit} s"
                elif number:
                    spent[name].append(took[0])
    expected = latency.session(subject.model, latency.OFF).run(None, dict(subject.feeds))
    for name, model in made.items():
        if complaint := _difference(model, subject.feeds, expected):
            wrong.setdefault(name, complaint)
    sound = [name for name in made if name not in wrong]
    timed: dict[str, list[float]] = {name: [] for name in ["original", *sound]}
    for level in (latency.OFF, latency.ON):
        models = [subject.model, *(made[name] for name in sound)]
        for name, found in zip(timed, latency.latencies(models, subject.feeds, level, 20 * runs), strict=True):
            timed[name].append(found)
    yield Row(subject.name, "original", latency.count(subject.model), None, *timed["original"])
    for name in contenders:
        nodes = latency.count(made[name]) if name in made else 0
        seconds = statistics.median(spent[name]) if spent[name] else None
        yield Row(subject.name, name, nodes, seconds, *(timed.get(name) or (None, None)), wrong=wrong.get(name, ""))


def _difference(model: ModelProto, feeds: Mapping[str, np.ndarray], expected: list[np.ndarray]) -> str:
    try:
        session = latency.session(model, latency.OFF)
        names = [value.name for value in session.get_inputs()]
        actual = session.run(None, {name: feeds[name] for name in names})
    except Exception as error:
        return f"does not run: {' '.join(str(error).split())[:120]}"
    for one, other in zip(expected, actual, strict=True):
        if one.shape != other.shape or not np.allclose(one, other, rtol=1e-3, atol=1e-4):
            return "computes something else"
    return ""


@dataclass(frozen=True)
class Summary:
    """A contender on all models that all contenders do rightly: sums, geometric means of ratios, medians."""

    contender: str
    models: int
    nodes: int
    fewest: int
    off: float
    on: float
    slower: int
    seconds: float


def summaries(rows: list[Row]) -> list[Summary]:
    """One for each contender; `fewest` counts the models where no other contender leaves fewer nodes."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row.model, {})[row.contender] = row
    able = list(dict.fromkeys(row.contender for row in rows if not row.wrong))
    kept = {name: held for name, held in by_model.items() if not any(held[contender].wrong for contender in able)}
    found = []
    for contender in able:
        own = [(held[contender], held) for held in kept.values()]
        offs, ons = ([_ratio(row, held, at) for row, held in own] for at in ("off", "on"))
        fewest = sum(row.nodes <= min(held[other].nodes for other in able) for row, held in own)
        seconds = [row.seconds for row, _ in own if row.seconds is not None]
        found.append(
            Summary(
                contender,
                sum(not held[contender].wrong for held in by_model.values()),
                sum(row.nodes for row, _ in own),
                fewest,
                _mean(offs),
                _mean(ons),
                sum(max(pair) > SLOWER for pair in zip(offs, ons, strict=True)),
                statistics.median(seconds) if seconds else 0.0,
            )
        )
    return found


def _ratio(row: Row, held: Mapping[str, Row], at: str) -> float:
    """To the original, below 1 is faster."""
    return float(getattr(row, at)) / float(getattr(held["original"], at))


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan


TOTALS = ("contender", "right", "nodes", "fewest", "ratio off", "ratio on", "slower", "seconds")
COLUMNS = ("model", "contender", "nodes", "µs off", "ratio", "µs on", "ratio", "seconds")


def totals(rows: list[Row]) -> Iterator[list[str]]:
    """The cells of the summary."""
    for s in summaries(rows):
        seconds = f"{s.seconds:.2f}" if s.seconds else ""
        yield [
            s.contender,
            str(s.models),
            f"{s.nodes:,}",
            str(s.fewest),
            f"{s.off:.2f}",
            f"{s.on:.2f}",
            str(s.slower),
            seconds,
        ]


def cells(rows: list[Row]) -> Iterator[list[str]]:
    """The cells of each row."""
    held: dict[str, Row] = {}
    for row in rows:
        held = held if row.contender != "original" else {}
        held[row.contender] = row
        if row.off is None or row.on is None:
            yield [row.model, row.contender, row.wrong, "", "", "", "", ""]
            continue
        times = [
            f"{row.off * 1e6:.0f}",
            f"{_ratio(row, held, 'off'):.2f}",
            f"{row.on * 1e6:.0f}",
            f"{_ratio(row, held, 'on'):.2f}",
        ]
        yield [row.model, row.contender, str(row.nodes), *times, "" if row.seconds is None else f"{row.seconds:.2f}"]


def as_table(rows: list[Row]) -> Iterator[Table]:
    """For the terminal."""
    for columns, found in ((COLUMNS, cells(rows)), (TOTALS, totals(rows))):
        table = Table(*columns)
        for row in found:
            table.add_row(*row)
        yield table


PAGE = """# Optimizers compared

Written by `python -m benchmarks optimizers --markdown`. Each optimizer gets {models} models from exporters, with its
default options, in a process of its own. Then the original and all results run in turn in onnxruntime, on one thread.
Versions: {peers}.

- *right*: the number of models whose result loads and computes the same as the original. All other columns count only
  the models that every optimizer gets right.
- *nodes*: nodes without constants, nodes of subgraphs included.
- *fewest*: the number of models for which no other optimizer leaves fewer nodes.
- *µs*: microseconds for one run, with onnxruntime's own graph optimizations off and on.
- *ratio*: µs of the result divided by µs of the original, so below 1 is faster. The total is a geometric mean.
- *slower*: the number of models that run more than {slower:.0%} slower than the original, with optimizations off or on.
- *seconds*: processor time of the optimizer, the median of {runs} runs. The total is the median of all models.

The models were exported by {wrote}. The machine had {cores} cores and a load of {load:.1f} at the end; a load above the
number of cores means that other work slowed the measurement.

## In all

"""


def as_markdown(rows: list[Row], runs: int) -> str:
    """As it stands in docs/optimizers.md."""
    installed = [
        name for name in ("onnxsim", "onnxslim", "onnxscript", "onnxruntime") if importlib.util.find_spec(name)
    ]
    peers = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in installed)
    versions = {name: number for entry in store.index().values() for name, number in entry["versions"].items()}
    wrote = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    page = PAGE.format(
        peers=peers,
        runs=runs,
        models=len({row.model for row in rows}),
        wrote=wrote,
        cores=os.cpu_count(),
        load=os.getloadavg()[0],
        slower=SLOWER - 1,
    )
    tables = [*_markdown(TOTALS, totals(rows)), "", "## Each model", "", *_markdown(COLUMNS, cells(rows))]
    return page + "\n".join(tables) + "\n"


def _markdown(columns: tuple[str, ...], rows: Iterable[list[str]]) -> list[str]:
    return [f"| {' | '.join(held)} |" for held in (columns, ["---"] * len(columns), *rows)]

"""`python -m benchmarks [--nodes N ...] [--runs N] [--limit S]`: whole processes, imports included.

The modules are compiled in the first round, which does not count; those of an installed package are compiled already.
Each round runs every contender once, in turn, so that a machine that slows down slows all of them. Seconds are those of
the processor, so that other work on the machine counts less; the ratio is to the first peer.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import models

PEER = (
    "import sys, onnx, onnx.version_converter as c;"
    "onnx.save(c.convert_version(onnx.load(sys.argv[1]), 18), sys.argv[2])"
)
SCRIPT = (
    "import sys, onnx, onnxscript.version_converter as c, onnx_ir;"
    "m = onnx_ir.load(sys.argv[1]); c.convert_version(m, 18, fallback=True); onnx_ir.save(m, sys.argv[2])"
)
INLINER = (
    "import sys, onnx, onnx.inliner as i; m = onnx.load(sys.argv[2]);"
    "onnx.save(i.inline_selected_functions(m, [('', sys.argv[1])], inline_schema_functions=True), sys.argv[3])"
)
ONNXSIM = ["-m", "onnxsim", "--target-opset", "18", "--skip-optimization", "--skip-constant-folding"]
CONVERT = {
    "opshift convert --no-verify": ["-m", "opshift", "convert", "--opset", "18", "--no-verify"],
    "onnx.version_converter": ["-c", PEER],
}
OTHERS = {"onnxscript.version_converter": ["-c", SCRIPT]}
if importlib.util.find_spec("onnxsim"):
    OTHERS["onnxsim, nothing simplified"] = ONNXSIM


def _inlining(op: str) -> dict[str, list[str]]:
    return {
        "opshift inline --no-verify": ["-m", "opshift", "inline", "--op", op, "--no-verify"],
        "onnx.inliner": ["-c", INLINER, op],
    }


@dataclass(frozen=True)
class Shape:
    """A kind of model: what makes one of so many nodes, and who converts it."""

    title: str
    make: Callable[[int], object]
    commands: dict[str, list[str]]


SHAPES = [
    Shape("a chain, 13 -> 18", models.reduce_chain, {**CONVERT, **OTHERS}),
    Shape("a weight for each node, 13 -> 18", models.weights, CONVERT),
    Shape("20 Ifs in each other, 13 -> 18", models.nested, CONVERT),
    Shape("20 Loops in each other, 13 -> 18", models.loops, CONVERT),
    Shape("ReduceL2 inlined at 18", models.norms, _inlining("ReduceL2")),
    Shape("LayerNormalization inlined at 18", models.layer_norms, _inlining("LayerNormalization")),
]


@dataclass(frozen=True)
class Row:
    """One contender on one model: medians of processor seconds and megabytes; None where it took too long."""

    model: str
    nodes: int
    contender: str
    seconds: float | None
    megabytes: float | None
    ratio: float | None


def measure(nodes: Sequence[int], runs: int, limit: int) -> Iterator[list[Row]]:
    """The rows of each model, after one round that does not count."""
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            for count in nodes:
                yield _measured(shape, count, Path(folder), runs, limit)


def _measured(shape: Shape, nodes: int, folder: Path, runs: int, limit: int) -> list[Row]:
    source, output = models.write(folder / "in.onnx", shape.make(nodes)), folder / "out.onnx"
    found: dict[str, list[tuple[float, float] | None]] = {name: [] for name in shape.commands}
    for number in range(runs + 1):
        for name, command in shape.commands.items():
            if None not in found[name]:
                spent = once([*command, str(source), str(output)], folder, limit)
                output.unlink(missing_ok=True)
                found[name] += [spent] if number or spent is None else []
    medians = {name: None if None in rounds else _medians(rounds) for name, rounds in found.items()}
    peer = next((held for name, held in medians.items() if not name.startswith("opshift")), None)
    return [
        Row(shape.title, nodes, name, *(held or (None, None)), held[0] / peer[0] if held and peer else None)
        for name, held in medians.items()
    ]


def _medians(rounds: list[tuple[float, float] | None]) -> tuple[float, float]:
    counted = [held for held in rounds if held is not None]
    return statistics.median(seconds for seconds, _ in counted), statistics.median(size for _, size in counted)


def once(command: list[str], folder: Path, limit: int) -> tuple[float, float] | None:
    """Processor seconds and megabytes of Python with these arguments; None for more than `limit` seconds."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
    )
    assert process.stderr is not None
    told = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if os.WIFSIGNALED(status):
        return None
    if status:
        raise SystemExit(f"{' '.join(command)[:80]} failed: {told.decode()[-400:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def line(row: Row, limit: int) -> str:
    """A row of the table in Markdown."""
    seconds = f"more than {limit}" if row.seconds is None else f"{row.seconds:.2f}"
    megabytes = "" if row.megabytes is None else f"{row.megabytes:.0f}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return f"| {row.model} | {row.nodes:,} | {row.contender} | {seconds} | {megabytes} | {ratio} |"


HEAD = """# Benchmarks

Whole processes from the shell, imports included, with a file in and a file out and without verification: medians of
the processor's seconds, the peak of the memory, and the ratio of seconds to the peer's in the same run.
onnxsim converts with onnx's converter before it simplifies; here it does the first alone.
`python -m benchmarks > docs/benchmarks.md` writes this page anew.

| model | nodes | contender | seconds | MB | ratio |
|---|---|---|---|---|---|"""

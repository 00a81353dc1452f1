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
ONNXSIM = ["-m", "onnxsim", "--target-opset", "18", "--skip-optimization", "--skip-constant-folding"]
CONVERT = {
    "opshift convert --no-verify": ["-m", "opshift", "convert", "--opset", "18", "--no-verify"],
    "onnx.version_converter": ["-c", PEER],
}
OTHERS = {"onnxscript.version_converter": ["-c", SCRIPT]}
if importlib.util.find_spec("onnxsim"):
    OTHERS["onnxsim, nothing simplified"] = ONNXSIM


FAILED = "fails"
Spent = tuple[float, float] | str
"""Seconds and megabytes, or why there are none."""


@dataclass(frozen=True)
class Shape:
    """A kind of model: what makes one of up to `most` nodes, and who converts it."""

    title: str
    make: Callable[[int], object]
    commands: dict[str, list[str]]
    most: int = 1_000_000


SHAPES = [
    Shape("a chain, 13 -> 18", models.reduce_chain, {**CONVERT, **OTHERS}),
    Shape("a weight for each node, 13 -> 18", models.weights, CONVERT),
    Shape("20 Ifs in each other, 13 -> 18", models.nested, CONVERT),
    Shape("20 Loops in each other, 13 -> 18", models.loops, CONVERT),
]


@dataclass(frozen=True)
class Row:
    """One contender on one model: medians of processor seconds and megabytes, or why there are none.

    Where the peer took too long, the ratio is one that is certainly not reached.
    """

    model: str
    nodes: int
    contender: str
    spent: Spent
    ratio: float | None
    below: bool = False


def measure(shapes: Sequence[Shape], nodes: Sequence[int], runs: int, limit: int) -> Iterator[list[Row]]:
    """The rows of each model, after one round that does not count."""
    with tempfile.TemporaryDirectory() as folder:
        for shape in shapes:
            slow: set[str] = set()  # no contender is faster on more nodes
            for count in sorted(nodes):
                if count <= shape.most:
                    rows = _measured(shape, count, Path(folder), runs, limit, slow)
                    slow |= {row.contender for row in rows if row.spent == _slow(limit)}
                    yield rows


def _measured(shape: Shape, nodes: int, folder: Path, runs: int, limit: int, slow: set[str]) -> list[Row]:
    source, output = models.write(folder / "in.onnx", shape.make(nodes)), folder / "out.onnx"
    found: dict[str, list[Spent]] = {name: [_slow(limit)] if name in slow else [] for name in shape.commands}
    for number in range(runs + 1):
        for name, command in shape.commands.items():
            if not any(isinstance(spent, str) for spent in found[name]):
                ours = name.startswith("opshift")
                spent = _spent([*command, str(source), str(output)], folder, limit, may_fail=not ours)
                output.unlink(missing_ok=True)
                found[name] += [spent] if number or isinstance(spent, str) else []
    medians = {name: _median(rounds) for name, rounds in found.items()}
    peer: Spent = next((held for name, held in medians.items() if not name.startswith("opshift")), FAILED)
    return [Row(shape.title, nodes, name, held, *_ratio(held, peer, limit)) for name, held in medians.items()]


def _median(rounds: list[Spent]) -> Spent:
    counted = [held for held in rounds if not isinstance(held, str)]
    if len(counted) < len(rounds):
        return next(held for held in rounds if isinstance(held, str))
    return statistics.median(seconds for seconds, _ in counted), statistics.median(size for _, size in counted)


def _ratio(held: Spent, peer: Spent, limit: int) -> tuple[float | None, bool]:
    if isinstance(held, str) or peer == FAILED:
        return None, False
    return (held[0] / limit, True) if isinstance(peer, str) else (held[0] / peer[0], False)


def _slow(limit: int) -> str:
    return f"more than {limit}"


def _spent(command: list[str], folder: Path, limit: int, *, may_fail: bool) -> Spent:
    try:
        return once(command, folder, limit) or _slow(limit)
    except SystemExit:
        if may_fail:
            return FAILED
        raise


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


def line(row: Row) -> str:
    """A row of the table in Markdown."""
    seconds, megabytes = (
        (row.spent, "") if isinstance(row.spent, str) else (f"{row.spent[0]:.2f}", f"{row.spent[1]:.0f}")
    )
    ratio = "" if row.ratio is None else f"{'< ' if row.below else ''}{row.ratio:.2f}"
    return f"| {row.model} | {row.nodes:,} | {row.contender} | {seconds} | {megabytes} | {ratio} |"


COLUMNS = """| model | nodes | contender | seconds | MB | ratio |
|---|---|---|---|---|---|"""
HEAD = f"""# Benchmarks

Whole processes from the shell, imports included, with a file in and a file out and without verification: medians of
the processor's seconds, the peak of the memory, and the ratio of seconds to the first peer's in the same run.
onnxsim converts with onnx's converter before it simplifies; here it does the first alone.
`python -m benchmarks > docs/benchmarks.md` writes this page anew.

{COLUMNS}"""

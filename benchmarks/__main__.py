"""`python -m benchmarks [--nodes N ...] [--runs N]`: whole processes, imports included, medians and ratios.

`python -m benchmarks weights [--gigabytes N] [--runs N]` measures models that are mostly weights, beside a plain copy.
`python -m benchmarks definitions [--op NAME ...] [--runs N]` compares expansions, see `benchmarks.definitions`;
`python -m benchmarks backends [--backend NAME ...]` counts what backends run, see `benchmarks.backends`.

Each round runs every contender once, in turn, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import models, weights

PEER = (
    "import sys, onnx, onnx.version_converter as c;"
    "onnx.save(c.convert_version(onnx.load(sys.argv[1]), 18), sys.argv[2])"
)
SCRIPT = (
    "import sys, onnx, onnxscript.version_converter as c, onnx_ir;"
    "m = onnx_ir.load(sys.argv[1]); c.convert_version(m, 18, fallback=True); onnx_ir.save(m, sys.argv[2])"
)
CONTENDERS = {
    "opshift convert --no-verify": ["-m", "opshift", "convert", "--opset", "18", "--no-verify"],
    "onnx.version_converter": ["-c", PEER],
    "onnxscript.version_converter": ["-c", SCRIPT],
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    subjects = ["conversions", "weights", "definitions", "backends"]
    parser.add_argument("what", nargs="?", choices=subjects, default="conversions")
    parser.add_argument("--op", action="append", default=[], help="only these operators, of the definitions")
    parser.add_argument("--backend", action="append", default=[], help="only these backends")
    parser.add_argument("--markdown", action="store_true", help="the definitions as docs/expansions.md")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--gigabytes", type=int, default=1, help="of embedded weights")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    console = Console(width=120)
    if options.what == "definitions":
        from benchmarks import definitions

        compared = definitions.measure(options.op, options.runs)
        if options.markdown:
            print(definitions.as_markdown(compared), end="")
        else:
            console.print(definitions.as_table(compared))
        return
    if options.what == "backends":
        from benchmarks import backends
        from opshift.report import progress

        with progress() as advance:
            chosen = options.backend or ["openvino", "opencv"]
            rows = [row for backend in chosen for row in backends.measure(backend, advance)]
        print(backends.document(rows), end="")
        return
    if options.what == "weights":
        _weights(console, options.gigabytes, options.runs)
        return
    with tempfile.TemporaryDirectory() as folder:
        console.print(_table("opshift --help", _measure({"opshift --help": ["-m", "opshift", "--help"]}, options.runs)))
        for nodes in options.nodes:
            source = models.write(Path(folder), nodes)
            commands = {
                name: [*command, str(source), str(Path(folder) / "out.onnx")] for name, command in CONTENDERS.items()
            }
            if nodes > 10_000:
                del commands["onnxscript.version_converter"]
            console.print(_table(f"{nodes} nodes, 13 -> 18", _measure(commands, options.runs)))


def _weights(console: Console, gigabytes: int, runs: int) -> None:
    ours = CONTENDERS["opshift convert --no-verify"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, output = str(weights.embedded(folder / "in.onnx", gigabytes * 16)), str(folder / "out.onnx")
        commands = {
            "cp": ["cp", source, output],
            "opshift convert --no-verify": [*ours, source, output],
            "opshift convert": [*ours[:-1], source, output],
        }
        console.print(_table(f"{gigabytes} GB in one file, 13 -> 18", _measure(commands, runs)))
        if gigabytes < 2:  # what onnx opens
            peer = {"onnx.version_converter": [*CONTENDERS["onnx.version_converter"], source, output]}
            console.print(_table("the same", _measure(peer, 1)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, output = str(weights.embedded(folder / "in.onnx", 40)), str(folder / "out.onnx")
        rescue = [*ours, source, output, "--external-data", "all"]
        commands = {
            "cp": ["cp", source, output],
            "opshift convert --no-verify": [*ours, source, output],
            "opshift convert --no-verify --external-data all": [
                "sh",
                "-c",
                'rm -f "$0.data"; exec "$@"',
                output,
                sys.executable,
                *rescue,
            ],
        }
        console.print(_table("2.5 GB in one file, 13 -> 18: nobody else opens it", _measure(commands, runs)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, output = str(weights.external(folder / "in.onnx", 64)), str(folder / "out.onnx")
        commands = {"opshift convert --no-verify": [*ours, source, output]}
        console.print(_table("4 GB of external data, kept", _measure(commands, runs)))
        (folder / "in.onnx.data").unlink()
        console.print(_table("the same, data absent", _measure(commands, runs)))


def _measure(commands: dict[str, list[str]], runs: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds and megabytes of each command in each round, after one round that does not count."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            seconds, megabytes = _once(command)
            if number:
                found[name].append((seconds, megabytes))
    return found


def _once(command: list[str]) -> tuple[float, float]:
    started = time.perf_counter()
    program = [sys.executable] if command[0].startswith("-") else []
    process = subprocess.Popen([*program, *command], stdout=subprocess.DEVNULL)
    _, status, usage = _wait(process)
    if status:
        raise SystemExit(f"{' '.join(command)[:80]} failed with status {status}")
    return time.perf_counter() - started, usage.ru_maxrss / 1000


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, int, resource.struct_rusage]:
    import os

    found = os.wait4(process.pid, 0)
    process.returncode = found[1]
    return found


def _table(title: str, measured: dict[str, list[tuple[float, float]]]) -> Table:
    table = Table("", "seconds (median)", "min", "max", "MB", "ratio of medians", title=title, title_justify="left")
    base = None
    for name, rounds in measured.items():
        seconds = [s for s, _ in rounds]
        median = statistics.median(seconds)
        base = base or median
        table.add_row(
            name,
            f"{median:.3f}",
            f"{min(seconds):.3f}",
            f"{max(seconds):.3f}",
            f"{statistics.median(m for _, m in rounds):.0f}",
            f"{median / base:.2f}",
        )
    return table


if __name__ == "__main__":
    main()

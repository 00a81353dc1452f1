"""`python -m benchmarks waits [--models FOLDER] [--beside PYTHON]`: where people wait, each beside a peer in one run.

Seconds of the processor, medians: of whole processes first, imports included, each run in turn with its peer, and with
the opshift of another Python, if one is named; then, of the models in a folder, within one process.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import onnxruntime as ort
from onnx import ModelProto, TensorProto, helper, version_converter

import opshift
from benchmarks import models, weights
from benchmarks.inlining import LOCAL

HEAD = """
## Where people wait

Seconds of the processor, medians: whole processes beside a peer in one run, while other work ran on the machine.
`python -m benchmarks waits` writes this table anew; `--models FOLDER` adds models, each within one process.

| what | seconds | peer | seconds | ratio |
|---|---|---|---|---|"""
_OLDEST, _NEWEST = 11, 23  # opsets that models are taken to


def measure(runs: int, beside: str, folder: Path | None) -> Iterator[str]:
    """The rows of the table, in Markdown."""
    with tempfile.TemporaryDirectory() as name:
        for title, ours, peer, theirs in _processes(Path(name)):
            for python in filter(None, [sys.executable, beside]):
                told = title if python == sys.executable else f"{title}, {python}"
                yield _row(told, [python, "-m", "opshift", *ours], peer, [sys.executable, *theirs], runs)
    for path in sorted(folder.rglob("*.onnx")) if folder is not None else ():
        yield from _of_model(path, runs)


def _processes(folder: Path) -> Iterator[tuple[str, list[str], str, list[str]]]:
    """What is done, by opshift with these arguments, and by a peer with those of Python."""
    out, load = str(folder / "out.onnx"), ["-c", "import onnx"]
    few = str(models.write(folder / "few.onnx", models.reduce_chain(1_000)))
    yield "1,000 nodes, 13 -> 18", ["convert", few, out, "--opset", "18", "--no-verify"], "import onnx", load
    many = str(models.write(folder / "many.onnx", _reductions(100_000)))
    yield "100,000 nodes, 18 -> 13", ["convert", many, out, "--opset", "13", "--no-verify"], "import onnx", load
    calls = str(models.write(folder / "calls.onnx", models.functions(10_000)))
    inline = ["inline", calls, out, "--domain", models.FUNCTIONS, "--no-verify"]
    yield "10,000 functions inlined", inline, "onnx.inliner", ["-c", LOCAL, calls, out]
    large = str(weights.external(folder / "large.onnx", 300))
    yield "inspect, 900 nodes, 20 GB", ["inspect", large], "import onnx", load


def _reductions(nodes: int) -> ModelProto:
    """ReduceMax with axes as an input, and Relu, in turn."""
    chain = [
        helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"], name=f"n{i}")
        if i % 2
        else helper.make_node("ReduceMax", [f"v{i}", "axes"], [f"v{i + 1}"], name=f"n{i}")
        for i in range(nodes)
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width])
        for name, width in (("v0", 8), (f"v{nodes}", 1))
    ]
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    graph = helper.make_graph(chain, "reductions", ends[:1], ends[1:], [axes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _of_model(path: Path, runs: int) -> Iterator[str]:
    model = onnx.load(path)
    own = next(entry.version for entry in model.opset_import if not entry.domain)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    data = model.SerializeToString()

    def opened() -> object:
        return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    tasks: list[tuple[str, Callable[[], object], str, Callable[[], object]]] = [
        (
            f"{own} -> {_NEWEST}",
            lambda: opshift.convert_version(model, _NEWEST),
            "onnx.version_converter",
            lambda: version_converter.convert_version(model, _NEWEST),
        ),
        (f"{own} -> {_OLDEST}", lambda: opshift.convert_version(model, _OLDEST), "onnxruntime opens it", opened),
        ("optimized", lambda: opshift.optimize(model), "onnxruntime opens it", opened),
    ]
    for title, ours, peer, theirs in tasks:
        yield _line(f"{path.stem}, {title}", _median(ours, runs), peer, _median(theirs, runs))


def _median(task: Callable[[], object], runs: int) -> float | None:
    """Seconds after a first time that does not count; None if it cannot be done."""
    spent = list[float]()
    for _ in range(runs + 1):
        started = time.process_time()
        try:
            task()
        except Exception:
            return None
        spent.append(time.process_time() - started)
    return statistics.median(spent[1:])


def _row(title: str, ours: list[str], peer: str, theirs: list[str], runs: int) -> str:
    pairs = [(_once(ours), _once(theirs)) for _ in range(runs + 1)][1:]
    mine, other = (statistics.median(held) for held in zip(*pairs, strict=True))
    return _line(title, mine, peer, other)


def _line(title: str, mine: float | None, peer: str, other: float | None) -> str:
    ratio = f"{mine / other:.2f}" if mine is not None and other else ""
    spent = ["refused" if mine is None else f"{mine:.3f}", "fails" if other is None else f"{other:.3f}"]
    return f"| {title} | {spent[0]} | {peer} | {spent[1]} | {ratio} |"


def _once(command: list[str]) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{' '.join(command)[:80]} failed with status {status}")
    return usage.ru_utime + usage.ru_stime

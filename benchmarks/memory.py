"""`python -m benchmarks memory [--layers N]`: the memory that proofs of large models take, beside their weights.

The peak is that of all processes of a command together, what they share counted once, files that are mapped included.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

from benchmarks import weights

EVERY = 0.02  # seconds between two looks


def measure(layers: int) -> Iterator[str]:
    """Rows of a table in Markdown."""
    yield "| model | command | seconds | MB of weights | MB at the peak | ratio |\n|---|---|---|---|---|---|"
    held = np.random.default_rng(0).standard_normal(weights.LAYER // 4, np.float32)
    data = (held / np.float32(weights.WIDTH**0.5)).tobytes()  # so that numbers stay numbers: bits of no others differ
    for kind, make in (("one file", weights.embedded), ("external data", weights.external)):
        size = layers * weights.LAYER
        with tempfile.TemporaryDirectory() as name:
            model = make(Path(name) / "in.onnx", layers, data)
            other = _turned(model)
            ours = [sys.executable, "-m", "opshift"]
            for title, command in {
                "convert, exact": ["convert", model, f"{name}/out.onnx", "--opset", "18"],
                "verify, the same bits": ["verify", model, f"{name}/out.onnx"],
                "verify, other rounding": ["verify", model, other, "--close"],
            }.items():
                yield _row(f"{kind} | {title}", [*ours, *map(str, command)], size)
    with tempfile.TemporaryDirectory() as name:
        model = _halved(Path(name) / "in.onnx", 2 * layers)
        command = [*ours, "convert", str(model), f"{name}/out.onnx", "--opset", "18"]
        yield _row("float16, external data | convert, exact", command, layers * weights.LAYER)


def _row(title: str, command: list[str], size: int) -> str:
    seconds, peak = _watched(command)
    return f"| {title} | {seconds:.1f} | {size / 1e6:.0f} | {peak / 1e6:.0f} | {peak / size:.2f} |"


def _halved(path: Path, layers: int) -> Path:
    """Weights of float16; half of the data file is not read."""
    half = np.random.default_rng(0).standard_normal(weights.LAYER // 4, np.float32) / np.float32(weights.WIDTH**0.5)
    held = onnx.load(weights.external(path, layers, half.astype(np.float16).tobytes() * 2), load_external_data=False)
    for value in (*held.graph.input, *held.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    for tensor in held.graph.initializer:
        tensor.data_type = onnx.TensorProto.FLOAT16
        next(entry for entry in tensor.external_data if entry.key == "length").value = str(weights.LAYER // 2)
    path.write_bytes(held.SerializeToString())
    return path


def _turned(path: Path) -> Path:
    """The same function, rounded otherwise: a - b is -(b - a), added at another place."""
    held = onnx.load(path, load_external_data=False)
    for node in held.graph.node:
        if node.op_type == "Sub":
            node.op_type = "Add"
            node.input[1] = f"{node.input[1]}/minus"
    nodes = list(held.graph.node)
    del held.graph.node[:]
    for node in nodes:
        held.graph.node.append(node)
        if node.op_type == "ReduceMax":
            held.graph.node.add(op_type="Mul", input=[node.output[0], "third"], output=[f"{node.output[0]}/t"])
            held.graph.node.add(
                op_type="Mul", input=[f"{node.output[0]}/t", "three"], output=[f"{node.output[0]}/minus"]
            )
    for name, number in (("third", 1 / 3), ("three", -3.0)):
        held.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(number), name))
    made = path.with_name("turned.onnx")
    made.write_bytes(held.SerializeToString())
    return made


def _watched(command: list[str]) -> tuple[float, int]:
    """Seconds by the clock and bytes at the peak."""
    started, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(_bytes, _family(process.pid))))
            time.sleep(EVERY)
        if process.returncode:
            said = process.stdout.read() if process.stdout else ""
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {said}")
    return time.perf_counter() - started, peak


def _family(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split():
                yield from _family(int(child))
    except OSError:  # it has ended meanwhile
        return


def _bytes(pid: int) -> int:
    """What a process holds; of what it shares, its part."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))

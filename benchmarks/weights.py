"""`python -m benchmarks weights [--gigabytes N] [--runs N]`: models that are mostly weights, beside a plain copy.

Whole processes; seconds by the clock, because most of them pass in reading and writing. The models are written without
holding their weights in memory.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from benchmarks.conversions import PEER

WIDTH = 4096
LAYER = WIDTH * WIDTH * 4  # bytes: 64 MB


def model(layers: int) -> ModelProto:
    """MatMul, ReduceMax and Sub in turn: every third node changes between opsets 13 and 18. Weights are missing."""
    nodes, value = list[NodeProto](), "x"
    for i in range(layers):
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("ReduceMax", [f"m{i}"], [f"r{i}"], axes=[1]))
        nodes.append(helper.make_node("Sub", [f"m{i}", f"r{i}"], [f"v{i}"]))
        value = f"v{i}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", WIDTH]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _weight(number: int) -> TensorProto:
    return TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])


def embedded(path: Path, layers: int, data: bytes = b"") -> Path:
    """A file of one piece; of more than 2 GB, too, which protobuf cannot write. `data` are those of each layer."""
    held = model(layers)
    graph = held.graph.SerializeToString()
    held.ClearField("graph")
    heads = [_weight(i).SerializeToString() + _tag(TensorProto, "raw_data", LAYER) for i in range(layers)]
    fields = [_tag(GraphProto, "initializer", len(head) + LAYER) + head for head in heads]
    start = held.SerializeToString()
    start += _tag(ModelProto, "graph", len(graph) + sum(map(len, fields)) + layers * LAYER) + graph
    data = data or os.urandom(LAYER)
    with path.open("wb") as file:
        file.write(start)
        for field in fields:
            file.write(field)
            file.write(data)
    return path


def external(path: Path, layers: int, data: bytes = b"") -> Path:
    """A file whose weights lie in another one; without `data` it is all zeros and takes no room on the disk."""
    held = model(layers)
    for i in range(layers):
        tensor = _weight(i)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": f"{path.name}.data", "offset": i * LAYER, "length": LAYER}.items():
            tensor.external_data.add(key=key, value=str(value))
        held.graph.initializer.append(tensor)
    path.write_bytes(held.SerializeToString())
    with (path.parent / f"{path.name}.data").open("wb") as file:
        file.truncate(layers * LAYER)
        for _ in range(layers if data else 0):
            file.write(data)
    return path


def _tag(message: type[TensorProto | GraphProto | ModelProto], field: str, length: int) -> bytes:
    """The tag and the length of a field that holds bytes."""
    found = bytearray()
    for value in (message.DESCRIPTOR.fields_by_name[field].number << 3 | 2, length):
        while value > 127:
            found.append(value & 127 | 128)
            value >>= 7
        found.append(value)
    return bytes(found)


def measure(gigabytes: int, runs: int) -> None:
    """Print a table in Markdown: medians of seconds, the peak of the memory, the ratio to the plain copy."""
    ours = [sys.executable, "-m", "opshift", "convert", "--opset", "18"]
    print("| model | contender | seconds | MB | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        files = [str(embedded(Path(name) / "in.onnx", gigabytes * 16)), f"{name}/out.onnx"]
        commands = {"cp": ["cp"], "opshift convert --no-verify": [*ours, "--no-verify"], "opshift convert": ours}
        if gigabytes < 2:  # what onnx opens
            commands["onnx.version_converter"] = [sys.executable, "-c", PEER]
        _compare(f"{gigabytes} GB in one file", {key: [*held, *files] for key, held in commands.items()}, runs)
    with tempfile.TemporaryDirectory() as name:
        files = [str(embedded(Path(name) / "in.onnx", 40)), f"{name}/out.onnx"]
        rescue = [*ours, "--no-verify", *files, "--external-data", "all"]
        commands = {
            "cp": ["cp", *files],
            "opshift convert --no-verify": [*ours, "--no-verify", *files],
            "the same, --external-data all": ["sh", "-c", 'rm -f "$0.data"; exec "$@"', files[1], *rescue],
        }
        _compare("2.5 GB in one file, which protobuf cannot read", commands, runs)
    with tempfile.TemporaryDirectory() as name:
        files = [str(external(Path(name) / "in.onnx", 64)), f"{name}/out.onnx"]
        commands = {"opshift convert --no-verify": [*ours, "--no-verify", *files]}
        _compare("4 GB of external data, kept", commands, runs)
        Path(f"{name}/in.onnx.data").unlink()
        _compare("the same, the data absent", commands, runs)


def _compare(title: str, commands: dict[str, list[str]], runs: int) -> None:
    """Each round runs every command once, in turn; the first round does not count."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            spent = _once(command)
            found[name] += [spent] if number else []
    copy = statistics.median(seconds for seconds, _ in found["cp"]) if "cp" in found else None
    for name, rounds in found.items():
        seconds, megabytes = (statistics.median(held) for held in zip(*rounds, strict=True))
        ratio = "" if copy is None else f"{seconds / copy:.2f}"
        print(f"| {title} | {name} | {seconds:.2f} | {megabytes:.0f} | {ratio} |", flush=True)


def _once(command: list[str]) -> tuple[float, float]:
    """Seconds by the clock and megabytes."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{' '.join(command)[:80]} failed with status {status}")
    return time.perf_counter() - started, usage.ru_maxrss / 1000

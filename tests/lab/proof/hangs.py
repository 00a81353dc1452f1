"""Models on which a proof may never end, need too much, or leave processes behind."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
from onnx import TensorProto

from tests.lab.proof.running import Answer, Row, alive, descendants, kill, run, verify

MODELS = {
    "a Loop that keeps its condition": """<ir_version: 8, opset_import: ["" : 18]> g (float[N,8] x) => (float[N,8] y) <float line = {-1000}, int64[1] axes = {1}> {
        n = ReduceL2(x, axes) m = ReduceMax<keepdims=0>(n) c = Less(m, line)
        y = Loop(, c, x) <body = b (int64 i, bool before, float[N,8] v) => (bool after, float[N,8] w) { after = Identity(before) w = Tanh(v) }> }""",
    "a Loop that never ends": """<ir_version: 8, opset_import: ["" : 18]> g (float[N,8] x) => (float[N,8] y, float[N,1] n) <bool yes = {1}, int64[1] axes = {1}> {
        n = ReduceL2(x, axes)
        y = Loop(, yes, x) <body = b (int64 i, bool before, float[N,8] v) => (bool after, float[N,8] w) { after = Identity(before) w = Tanh(v) }> }""",
    "a Loop that counts to its input": """<ir_version: 8, opset_import: ["" : 18]> g (float[N,8] x, int64 limit) => (float[N,8] y, int64 turns) <bool yes = {1}, int64 zero = {0}, int64 one = {1}, int64[1] axes = {1}> {
        n = ReduceL2(x, axes) z = Mul(x, n)
        y, turns = Loop(, yes, z, zero) <body = b (int64 i, bool before, float[N,8] v, int64 k) => (bool after, float[N,8] w, int64 l) { l = Add(k, one) e = Equal(l, limit) after = Not(e) w = Tanh(v) }> }""",
    "DeformConv": """<ir_version: 10, opset_import: ["" : 22]> g (bfloat16[N,32,48,48] x, bfloat16[N,18,48,48] offset, bfloat16[32,32,3,3] w) => (bfloat16[N,32,48,48] y) {
        y = DeformConv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, w, offset) }""",
    "RoiAlign": """<ir_version: 10, opset_import: ["" : 22]> g (bfloat16[N,64,50,50] x, bfloat16[R,4] rois, int64[R] batch) => (bfloat16[R,64,7,7] y) {
        y = RoiAlign<output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.25>(x, rois, batch) }""",
}
OPSETS = {"DeformConv": "latest", "RoiAlign": "latest"}
"""onnxruntime has no kernels for bfloat16 there, and onnx.reference takes minutes."""
DEADLINE = 20.0
"""Seconds that a case may take."""

CUSTOM = """<ir_version: 8, opset_import: ["" : 18, "vendor" : 1]> g (float[N,8] x) => (float[N,1] y, float[N,8] z) <int64[1] axes = {1}> {
    t = Tanh(x) z = vendor.Special<level=3>(t) y = ReduceL2(t, axes) }"""

HUGE, SECONDS, MEGABYTES = 11585, 3.0, 400
"""Eight square matrices of this size take 4.3 GB; how long and how much memory one change beside them may take."""


def cases(options: argparse.Namespace) -> Iterator[Callable[[], Row | list[Row]]]:
    found: dict[str, Callable[[argparse.Namespace], Row | list[Row]]] = {
        **{name: lambda options, name=name: _converted(name, options) for name in MODELS},
        "custom operator": _custom,
        "killed parent": _killed,
        "4.3 GB": _large,
    }
    for name, judge in found.items():
        if options.only in name:
            yield lambda judge=judge: judge(options)


def _converted(name: str, options: argparse.Namespace) -> list[Row]:
    """The conversion ends, and is not refused; so does `verify`."""
    with tempfile.TemporaryDirectory() as folder:
        source, result, unproved = (Path(folder) / f"{file}.onnx" for file in ("source", "result", "unproved"))
        onnx.save(onnx.parser.parse_model(MODELS[name]), source)
        asked = ["convert", source, result, "--opset", OPSETS.get(name, "13")]
        converted = run(asked, options.limit)
        made = run([*asked[:2], unproved, *asked[3:], "--no-verify"], options.limit)
        rows = [Row("convert", name, converted, _ended(converted), _last_line(converted))]
        if made.status == "equal":
            answer = verify(source, unproved, limit=options.limit)
            rows.append(Row("verify", name, answer, _ended(answer), _last_line(answer)))
    return rows


def _custom(options: argparse.Namespace) -> list[Row]:
    """An operator without a kernel beside a change: the change is proved, and a mistake in it is told."""
    with tempfile.TemporaryDirectory() as folder:
        source, result, wrong = (Path(folder) / f"{file}.onnx" for file in ("source", "result", "wrong"))
        model = onnx.parser.parse_model(CUSTOM)
        onnx.save(model, source)
        converted = run(["convert", source, result, "--opset", "13"], options.limit)
        rows = [Row("convert", "custom operator", converted, converted.status == "equal", _last_line(converted))]
        next(node for node in model.graph.node if node.op_type == "ReduceL2").op_type = "ReduceL1"
        onnx.save(model, wrong)
        told = verify(source, wrong, limit=options.limit)
        rows.append(
            Row("verify", "custom operator beside a mistake", told, told.status == "different", _last_line(told))
        )
    return rows


def _killed(options: argparse.Namespace) -> Row:
    """No child goes on for five seconds after SIGKILL to its parent."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slow.onnx"
        _slow(path)
        command = [sys.executable, "-m", "opshift", "verify", str(path), str(path.with_name("copy.onnx"))]
        parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until, children = time.perf_counter() + 5, list[int]()
        while parent.poll() is None and time.perf_counter() < until and not children:
            time.sleep(0.3)
            children = descendants(parent.pid)
        if parent.poll() is not None:
            return Row("killed", "killed parent", Answer("ended", 0, ""), False, "it ended before it could be killed")
        parent.kill()
        parent.wait()
        killed = time.perf_counter()
        while any(map(alive, children)) and time.perf_counter() < killed + 5:
            time.sleep(0.05)
        seconds = time.perf_counter() - killed
        left = [pid for pid in children if alive(pid)]
        kill(left)
    status = f"{len(left)} left" if left else "all ended"
    return Row("killed", "killed parent", Answer(status, seconds, ""), not left, f"{len(children)} children")


def _slow(path: Path, size: int = 1536, layers: int = 300) -> None:
    """Products of matrices that take a minute, and a copy of the model in which one node has another operator."""
    weights = np.eye(size, dtype=np.float32)
    nodes = [onnx.helper.make_node("MatMul", [f"v{k}", "w"], [f"v{k + 1}"]) for k in range(layers)]
    for name, last in ((path, "Tanh"), (path.with_name("copy.onnx"), "Sigmoid")):
        tail = onnx.helper.make_node(last, [f"v{layers}"], ["y"])
        x = onnx.helper.make_tensor_value_info("v0", TensorProto.FLOAT, [size, size])
        y = onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, [size, size])
        graph = onnx.helper.make_graph([*nodes, tail], "g", [x], [y], [onnx.numpy_helper.from_array(weights, "w")])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), name)


def _large(options: argparse.Namespace) -> list[Row]:
    """Weights that stay in their file, and one ReduceL2 to convert; the file is sparse, so it takes no disk."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "large.onnx", Path(folder) / "result.onnx"
        weights, nodes, bytes_each = [], [], HUGE * HUGE * 4
        for k in range(8):
            tensor = TensorProto(
                name=f"w{k}", data_type=TensorProto.FLOAT, dims=[HUGE, HUGE], data_location=TensorProto.EXTERNAL
            )
            for key, value in (("location", "large.bin"), ("offset", k * bytes_each), ("length", bytes_each)):
                tensor.external_data.add(key=key, value=str(value))
            weights.append(tensor)
            nodes.append(onnx.helper.make_node("MatMul", [f"v{k}", f"w{k}"], [f"v{k + 1}"]))
        nodes.append(onnx.helper.make_node("ReduceL2", ["v8", "axes"], ["y"]))
        weights.append(onnx.numpy_helper.from_array(np.array([1]), "axes"))
        with (Path(folder) / "large.bin").open("wb") as file:
            file.truncate(8 * bytes_each)
        x = onnx.helper.make_tensor_value_info("v0", TensorProto.FLOAT, ["N", HUGE])
        y = onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1])
        graph = onnx.helper.make_graph(nodes, "g", [x], [y], weights)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
        source.write_bytes(model.SerializeToString())
        rows = []  # other work makes seconds on the clock longer
        for verb, asked in (
            ("convert", [source, result, "--opset", "13"]),
            ("inline", [source, result, "--op", "ReduceL2"]),
        ):
            answer = run([verb, *asked], max(options.limit, 120))
            right = (
                answer.status == "equal"
                and min(answer.seconds, answer.computed) <= SECONDS
                and answer.megabytes <= MEGABYTES
            )
            rows.append(Row(verb, "4.3 GB", answer, right, f"{answer.megabytes} MB; {_last_line(answer)}"))
            result.unlink(missing_ok=True)
    return rows


def _ended(answer: Answer) -> bool:
    return answer.status in ("equal", "unverified") and answer.seconds <= DEADLINE


def _last_line(answer: Answer) -> str:
    lines = [line.strip() for line in answer.said.splitlines() if line.strip()]
    return lines[-1][:160] if lines else ""

"""How long the command line takes with its proof, beside loading and running both models once.

Times are those on the clock, or of all cores together where these are less, so that other work counts little.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
from onnx import ModelProto

from tests.lab.proof import made, trained
from tests.lab.proof.pairs import outputs
from tests.lab.proof.running import Row, run

Array = Any
BAR = 3.0
"""Seconds that a trained file may take; more, where ten times loading and running both models once take longer."""
BARS = {"resnet18 QDQ": 5.0, "layout_cdla.onnx modernized": 20.0}
COMMANDS = {
    "to opset 13": ("convert", "--opset", "13"),
    "to opset 18": ("convert", "--opset", "18"),
    "QOperator": ("convert", "--quantization", "qoperator"),
    "modernized": ("convert", "--opset", "23", "--modernize", "--optimize"),
}


def cases(options: argparse.Namespace) -> Iterator[Callable[[], Row]]:
    """Run these alone: other work makes them slower, and `--jobs` does as well."""
    for command in ("to opset 13", "QOperator"):
        if options.only in f"resnet18 QDQ {command}":
            yield lambda command=command: _resnet18(command, options)
    for name, path in trained.find(options.models):
        for command in _commands(name, path) if path.stat().st_size <= options.largest * 1e6 else ():
            if options.only in f"{name} {command}":
                yield lambda name=name, path=path, command=command: _judge(name, path, command, options)


def _resnet18(command: str, options: argparse.Namespace) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet18.onnx"
        onnx.save(made.quantized_resnet18(), path)
        return _judge("resnet18 QDQ", path, command, options)


def _commands(name: str, path: Path) -> Iterator[str]:
    """To 13, or from below 14 to 18; and modernized, where that has to be quick as well."""
    opset = next(entry.version for entry in onnx.load(path).opset_import if entry.domain in ("", "ai.onnx"))
    yield "to opset 13" if opset > 13 else "to opset 18"
    if f"{name} modernized" in BARS:
        yield "modernized"


def _judge(name: str, path: Path, command: str, options: argparse.Namespace) -> Row:
    verb, *rest = COMMANDS[command]
    with tempfile.TemporaryDirectory() as folder:
        proved, result = Path(folder) / "proved.onnx", Path(folder) / "result.onnx"
        answer = run([verb, path, proved, *rest], options.limit)
        unproved = run([verb, path, result, *rest, "--no-verify"], options.limit)
        once = 0.0
        if unproved.status == "equal":
            given = ordinary(onnx.load(path))
            once = sum(_once(file, given) for file in (path, result))
    whole, rest_of_it = (min(measured.seconds, measured.computed) for measured in (answer, unproved))
    bar = BARS.get(f"{name} {command}", BARS.get(name))
    right = whole <= bar if bar else whole - rest_of_it <= (bar := max(BAR, 10 * once))
    remark = f"computed {whole:.1f} s, {rest_of_it:.1f} s without proof, both once {once:.2f} s, may take {bar:.1f} s; {answer.megabytes} MB"
    return Row("times", f"{name} {command}", answer, answer.status == "equal" and right, remark)


def ordinary(model: ModelProto) -> dict[str, Array]:
    """Images of 224 pixels, half a second of sound at 16 kHz, one sample."""
    rng = np.random.default_rng(0)
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for value in model.graph.input:
        if value.name in held:
            continue
        kind = value.type.tensor_type
        dims = [dim.dim_value for dim in kind.shape.dim]
        unknown = {4: 224, 2: 512}.get(len(dims), 1)
        shape = [size if size > 0 else unknown if place else 1 for place, size in enumerate(dims)]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        inputs[value.name] = np.array(16000, dtype) if not dims else rng.uniform(-1, 1, shape).astype(dtype)
    return inputs


def _once(path: Path, inputs: dict[str, Array]) -> float:
    """The seconds that it took, or those of all cores together where that is less: other work makes the first longer."""
    started, computed = time.perf_counter(), time.process_time()
    outputs(onnx.load(path), inputs)
    return min(time.perf_counter() - started, time.process_time() - computed)

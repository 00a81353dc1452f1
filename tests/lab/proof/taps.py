"""Trained image models with one tap of one kernel negated: it counts only where feature maps are larger than the kernel."""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import ModelProto, NodeProto, TensorProto

from tests.lab.proof import trained
from tests.lab.proof.pairs import outputs
from tests.lab.proof.running import Row, verify

IMAGES = {  # models that take images of any size, and one that shows whether a tap counts
    "PP-OCRv6_det_small.onnx": (1, 3, 64, 96),
    "PP-OCRv6_rec_small.onnx": (1, 3, 48, 96),
    "320n.onnx": (1, 3, 64, 96),
    "common.onnx": (1, 1, 64, 96),
    "pnet.onnx": (1, 64, 96, 3),
    "craftnet.onnx": (1, 3, 64, 96),
    "common_det.onnx": (1, 3, 64, 96),
    "layout_cdla.onnx": (1, 3, 64, 96),
}
FREED = {"common_det.onnx", "layout_cdla.onnx"}
"""Their files say one size, but they run on any."""

LEAST = 0.05
"""How far the outputs move, by the root of the mean square, as a part of theirs."""


@dataclass(frozen=True)
class Tap:
    conv: int
    weights: str
    position: tuple[int, ...]

    def negated(self, model: ModelProto) -> ModelProto:
        changed = ModelProto()
        changed.CopyFrom(model)
        tensor = _tensors(changed)[self.weights]
        values = onnx.numpy_helper.to_array(tensor).copy()
        values[(slice(None), slice(None), *self.position)] *= -1
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
        return changed


def cases(options: argparse.Namespace) -> Iterator[Callable[[], Row]]:
    """As many of each model, drawn by the seed; fewer, where its taps do not count."""
    models = [(name, path) for name, path in trained.find(options.models) if name in IMAGES and options.only in name]
    for number, (name, path) in enumerate(models):
        wanted = options.count // len(models) + (number < options.count % len(models))
        model = _load(name, path)
        for tap, moved in _that_count(model, IMAGES[name], wanted, options.seed):
            yield lambda name=name, path=path, tap=tap, moved=moved: _judge(name, path, tap, moved, options)


def _that_count(model: ModelProto, shape: tuple[int, ...], wanted: int, seed: int) -> Iterator[tuple[Tap, float]]:
    """At most one tap of each convolution while there are others, and how far each moves the outputs."""
    draw = random.Random(seed)
    feed = {_input(model): np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)}
    expected = outputs(model, feed)
    taps = sorted(_outer(model), key=lambda tap: draw.random())
    rounds: dict[int, int] = {}
    order = {}
    for tap in taps:
        order[tap] = rounds[tap.conv] = rounds.get(tap.conv, -1) + 1
    for tap in sorted(taps, key=order.__getitem__):
        if not wanted:
            return
        moved = max(_moved(a, b) for a, b in zip(expected, outputs(tap.negated(model), feed), strict=True))
        if moved >= LEAST:
            wanted -= 1
            yield tap, moved


def _judge(name: str, path: Path, tap: Tap, moved: float, options: argparse.Namespace) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        model = _load(name, path)
        onnx.save(model, before)
        onnx.save(tap.negated(model), after)
        answer = verify(before, after, options=() if options.plain else ("--close",), limit=options.limit)
    where = f"tap {list(tap.position)} of {tap.weights}"
    return Row("taps", f"{name}: {where}", answer, answer.status == "different", f"outputs move by {moved:.0%}")


def _load(name: str, path: Path) -> ModelProto:
    """The model as it is, or without the heights and widths that its file says."""
    model = onnx.load(path)
    if name in FREED:
        del model.graph.value_info[:]
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        for value in model.graph.input:
            for dim, size in zip(value.type.tensor_type.shape.dim[2:], ("height", "width"), strict=False):
                dim.dim_param = size
    return model


def _outer(model: ModelProto) -> Iterator[Tap]:
    """The taps at the border of each kernel of three or more; a convolution is told by its place among all."""
    tensors = _tensors(model)
    for number, node in enumerate(model.graph.node):
        if node.op_type == "Conv" and node.input[1] in tensors:
            kernel = tuple(tensors[node.input[1]].dims)[2:]
            for position in np.ndindex(*kernel):
                at_the_border = any(
                    size >= 3 and at in (0, size - 1) for at, size in zip(position, kernel, strict=True)
                )
                if at_the_border:
                    yield Tap(number, node.input[1], position)


def _tensors(model: ModelProto) -> dict[str, TensorProto]:
    """Initializers, and the values of Constant nodes."""
    found = {tensor.name: tensor for tensor in model.graph.initializer}
    found.update(
        {node.output[0]: _value(node) for node in model.graph.node if node.op_type == "Constant" and _value(node)}
    )
    return found


def _value(node: NodeProto) -> Any:
    return next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)


def _input(model: ModelProto) -> str:
    held = {tensor.name for tensor in model.graph.initializer}
    return next(value.name for value in model.graph.input if value.name not in held)


def _moved(a: Any, b: Any) -> float:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.sqrt(np.mean((a - b) ** 2)) / max(float(np.sqrt(np.mean(a**2))), 1e-30)) if a.size else 0.0

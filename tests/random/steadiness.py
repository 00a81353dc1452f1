"""Whether a difference is no larger than what a rounding of the inputs makes of it: then a close result may have it, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.helper
import onnx.numpy_helper
from onnx import ModelProto, TensorProto
from opshift.passes.model.traversal import bodies

from tests.random.models import FLOATS, Source, constants
from tests.random.values import tensor

ROOM = 64  # times what roundings of the inputs change
UNITS = 8  # of its precision that a number is moved by


def rocked(source: Source, way: int = 1) -> Source:
    """The source with each floating-point number a few units of its precision off, up or down."""
    model = ModelProto()
    model.CopyFrom(source.model)
    for constant in constants(model):
        if constant.data_type in FLOATS:
            constant.CopyFrom(tensor(_off(onnx.numpy_helper.to_array(constant), way), constant.name))
    _rock_windows(model, way)
    return replace(source, model=model, feeds={name: _off(value, way) for name, value in source.feeds.items()})


def as_unsteady(expected: Sequence[Any], outputs: Sequence[Any], *moved: Sequence[Any]) -> bool:
    """Whether outputs are as far from those expected as those of inputs moved in some way are, wherever they are far."""
    runs = [run for run in moved if len(run) == len(expected)]
    return bool(runs) and len(expected) == len(outputs) and all(map(_unsteady, expected, outputs, *runs))


def _off(value: Any, way: int) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype not in (np.float16, np.float32, np.float64):
        return value
    with np.errstate(all="ignore"):
        return (value * (1 + way * UNITS * np.finfo(value.dtype).eps)).astype(value.dtype)


def _rock_windows(model: ModelProto, way: int) -> None:
    """Windows of Blackman are read with something added that is not the same on both of their sides: their ends, which are
    0.42 - 0.5 + 0.08, and what makes both sides differ is nothing but rounding."""
    for body in bodies(model):
        for at, node in reversed(list(enumerate(body.node))):
            kind = next((a.i for a in node.attribute if a.name == "output_datatype"), TensorProto.FLOAT)
            if node.op_type != "BlackmanWindow" or kind != TensorProto.FLOAT:
                continue
            (out,) = node.output
            window, axis, size, total, turned, moved = (
                f"{out}/{what}" for what in ("w", "axis", "size", "sum", "cos", "by")
            )
            node.output[0] = window
            held = [np.array(0), np.array(way * UNITS * np.finfo(np.float32).eps, np.float32)]
            made = [
                onnx.helper.make_node("Constant", [], [axis], value=tensor(held[0])),
                onnx.helper.make_node("Constant", [], [size], value=tensor(held[1])),
                onnx.helper.make_node("CumSum", [window, axis], [total]),
                onnx.helper.make_node("Cos", [total], [turned]),
                onnx.helper.make_node("Mul", [turned, size], [moved]),
                onnx.helper.make_node("Add", [window, moved], [out]),
            ]
            for place, new in enumerate(made, at + 1):
                body.node.insert(place, new)


def _unsteady(expected: Any, output: Any, *moved: Any) -> bool:
    arrays = (expected, output, *moved)
    if not all(isinstance(value, np.ndarray) for value in arrays):
        return False
    if len({v.shape for v in arrays}) > 1:
        return any(value.shape != expected.shape for value in moved)
    if expected.dtype.kind != "f":
        moves = np.any([np.not_equal(expected, value) for value in moved], axis=0)
        return bool((np.equal(expected, output) | moves).all())
    with np.errstate(all="ignore"):
        apart, *rocks = (np.abs(value.astype(np.float64) - expected) for value in (output, *moved))
        sizes = np.abs(expected.astype(np.float64))
        usual = np.sqrt(np.mean(np.square(sizes[np.isfinite(sizes)]))) if np.isfinite(sizes).any() else 0.0
        floor = 4096 * np.finfo(expected.dtype).eps * np.maximum(sizes, usual)  # as `close` has it
        same = (expected == output) | (np.isnan(expected) & np.isnan(output))
        return bool((same | (apart <= ROOM * np.fmax.reduce(rocks) + floor)).all())

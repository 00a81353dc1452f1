"""Whether a difference is no larger than what a rounding of the inputs makes of it: then a close result may have it, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.numpy_helper
from onnx import ModelProto

from tests.random.models import FLOATS, Source, constants
from tests.random.values import tensor

ROOM = 64  # times what roundings of the inputs change


def rocked(source: Source) -> Source:
    """The source with each floating-point number a few units of its precision off."""
    model = ModelProto()
    model.CopyFrom(source.model)
    for constant in constants(model):
        if constant.data_type in FLOATS:
            constant.CopyFrom(tensor(_off(onnx.numpy_helper.to_array(constant)), constant.name))
    return replace(source, model=model, feeds={name: _off(value) for name, value in source.feeds.items()})


def as_unsteady(expected: Sequence[Any], outputs: Sequence[Any], moved: Sequence[Any]) -> bool:
    """Whether outputs are as far from those expected as those of moved inputs are, wherever they are far."""
    return len(expected) == len(outputs) == len(moved) and all(map(_unsteady, expected, outputs, moved))


def _off(value: Any) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype not in (np.float16, np.float32, np.float64):
        return value
    with np.errstate(all="ignore"):
        return (value * (1 + 8 * np.finfo(value.dtype).eps)).astype(value.dtype)


def _unsteady(expected: Any, output: Any, moved: Any) -> bool:
    arrays = (expected, output, moved)
    if not all(isinstance(value, np.ndarray) for value in arrays) or len({v.shape for v in arrays}) > 1:
        return False
    if expected.dtype.kind != "f":
        return bool((np.equal(expected, output) | np.not_equal(expected, moved)).all())
    with np.errstate(all="ignore"):
        apart, rock = (np.abs(value.astype(np.float64) - expected) for value in (output, moved))
        sizes = np.abs(expected.astype(np.float64))
        usual = np.sqrt(np.mean(np.square(sizes[np.isfinite(sizes)]))) if np.isfinite(sizes).any() else 0.0
        floor = 4096 * np.finfo(expected.dtype).eps * np.maximum(sizes, usual)  # as `close` has it
        same = (expected == output) | (np.isnan(expected) & np.isnan(output))
        return bool((same | (apart <= ROOM * rock + floor)).all())

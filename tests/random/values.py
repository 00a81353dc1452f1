"""Arrays by element type, with the values at which operators differ, and the ONNX types of what a run yields."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.helper
import onnx.numpy_helper
from onnx import TensorProto, TypeProto

PLAIN = [0.5, -1.25, 2.0, -0.75, 1.5, 3.0, -2.0, 0.25, 1.0, -0.5, 0.125, -3.5]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-30, 65504.0, -1e30, 1.0, -1.0, 0.5, 2.5]
WHOLE = [0, 1, 2, 3, -1, -2, 5, 7, -7, 4]
FAR = 1e4
TEXTS = ["a", "", "B", "ä b", "1.5", "a"]


def drawn(rng: random.Random, dtype: np.dtype[Any], shape: Sequence[int], *, special: bool) -> Any:
    """An array of a type and shape."""
    count = int(np.prod(shape))
    if dtype.kind in "OSU":
        return np.array([rng.choice(TEXTS) for _ in range(count)], object).reshape(shape)
    if dtype.kind == "b":
        return np.array([rng.random() < 0.5 for _ in range(count)], bool).reshape(shape)
    with np.errstate(all="ignore"):
        if is_whole(dtype):
            least = 0 if not signed(dtype) else -7
            held = [max(rng.choice(WHOLE), least) for _ in range(count)]
            if special and dtype.kind in "iu" and count and dtype.itemsize > 1:
                held[rng.randrange(count)] = rng.choice([np.iinfo(dtype).min, np.iinfo(dtype).max])
            return np.array(held, np.int64 if min(held, default=0) < 0 else np.uint64).astype(dtype).reshape(shape)
        pool = SPECIAL if special else PLAIN
        return np.array([rng.choice(pool) for _ in range(count)], np.float64).astype(dtype).reshape(shape)


def is_whole(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4", "int2", "uint2")


def signed(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "i" or dtype.name in ("int4", "int2")


def resized(value: Any, shape: Sequence[int]) -> Any:
    """The elements of `value` again and again, in another shape; zeros where it has none."""
    if not value.size:
        return np.full(shape, "" if value.dtype.kind in "OSU" else 0).astype(value.dtype)
    return np.resize(value, shape)


def far(value: Any, most: float = FAR) -> Any:
    """Where floating-point numbers are far from 1 in size, infinite or NaN; 0 is an ordinary one."""
    if not isinstance(value, np.ndarray):
        return np.zeros(0, bool)  # a sequence is left as it is
    if value.dtype.kind in "OSUbciu" or is_whole(value.dtype):
        return np.zeros(value.shape, bool)
    with np.errstate(all="ignore"):
        size = np.abs(value.astype(np.float64))
        return ~((size <= most) & ((size >= 1 / most) | (size == 0)))


def tamed(value: Any, most: float = FAR) -> Any:
    """The array with ordinary numbers in these places."""
    return np.where(far(value, most), np.resize(PLAIN, value.shape), value).astype(value.dtype)


def type_of(value: Any, shape: Sequence[int | str] | None = None) -> TypeProto:
    """The ONNX type of an array or a list of arrays; raises `TypeError` for what is neither."""
    if isinstance(value, np.ndarray):
        kind = TensorProto.STRING if value.dtype.kind in "OSU" else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        return onnx.helper.make_tensor_type_proto(kind, list(value.shape) if shape is None else shape)
    if isinstance(value, list) and value and all(isinstance(v, np.ndarray) for v in value):
        kind = type_of(value[0]).tensor_type.elem_type
        return onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(kind, None))
    raise TypeError(f"no type for {type(value).__name__}")


def tensor(value: Any, name: str = "") -> TensorProto:
    """An array as a tensor, in the field that its type has."""
    if value.dtype.kind in "OSU":
        made = TensorProto(name=name, data_type=TensorProto.STRING, dims=value.shape)
        made.string_data.extend(v if isinstance(v, bytes) else str(v).encode() for v in value.reshape(-1))
        return made
    return onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)

"""What a name holds in a twin: floats in double, and the type that the model has there."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.passes.model import tensor_data
from opshift.passes.model.messages import TensorProto
from opshift.passes.records import dataclass
from opshift.verification.engines import EngineError

WIDE = np.dtype(np.float64)
NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_BLOCK = 1 << 20  # elements that are read at once


@dataclass(frozen=True)
class Value:
    """What a name holds. `kind` is the narrow float type that the model has there, 0 for everything else.

    `cut` says that a cast to a narrower type made it, whose rounding is still to be done where it is cast back.
    """

    data: Any
    kind: int = 0
    cut: bool = False


@dataclass(frozen=True)
class Weight:
    """A tensor that is read where a node needs it."""

    tensor: TensorProto


def dtype_of(kind: int) -> np.dtype[Any]:
    """The type of numpy for one of ONNX."""
    import onnx.helper

    found: np.dtype[Any] = onnx.helper.tensor_dtype_to_np_dtype(kind)
    return found


def kind_of(dtype: Any) -> int:
    """The type of ONNX for a float of numpy; 0 for everything else."""
    import onnx.helper

    return onnx.helper.np_dtype_to_tensor_dtype(dtype) if dtype.kind in "fV" else 0


def widened(data: Any, kind: int = 0, cut: bool = False) -> Value:
    """A value in double; `kind` is what the model has where the data do not say it."""
    if isinstance(data, Value):
        return data
    if isinstance(data, list):
        items = [widened(item, kind) for item in data]
        return Value([item.data for item in items], next((item.kind for item in items if item.kind), kind))
    dtype = getattr(data, "dtype", None)
    if dtype is None or dtype.kind in "OSU":
        return Value(data)
    if dtype == WIDE:
        return Value(data, kind, cut)
    found = kind_of(dtype)
    return Value(data.astype(WIDE), kind or found, cut) if found in NARROW else Value(data)


def of_tensor(tensor: TensorProto, folder: str | None, *, narrow: bool = False) -> Value:
    """A weight, read and widened; with `narrow`, only read."""
    import onnx.numpy_helper

    if tensor_data.is_stored(tensor):
        if folder is None:
            raise EngineError("in float64: external data without a folder")
        read = _blocks(tensor, folder, dtype_of(tensor.data_type) if narrow else WIDE)
        if read is not None:
            return Value(read, tensor.data_type)
        tensor = tensor_data.loaded(tensor, folder)
    array = onnx.numpy_helper.to_array(tensor)
    return Value(array, tensor.data_type) if narrow and tensor.data_type in NARROW else widened(array)


def _blocks(tensor: TensorProto, folder: str, dtype: np.dtype[Any]) -> Any:
    """A weight as another type, never all of it twice; None where it does not lie in a file as it is."""
    found = tensor_data.place(tensor)
    if tensor.data_type not in NARROW or (tensor_data.is_embedded(tensor) and not found.offset):
        return None
    made, stored = np.empty(list(tensor.dims), dtype), dtype_of(tensor.data_type)
    flat = made.reshape(-1)
    with tensor_data.opened(folder, found) as file:
        file.seek(found.offset)
        for start in range(0, flat.size, _BLOCK):
            part = flat[start : start + _BLOCK]
            part[:] = np.frombuffer(file.read(part.size * stored.itemsize), stored)
    return made

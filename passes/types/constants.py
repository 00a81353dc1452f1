"""Which numbers a constant holds, and the same constant in another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.records import dataclass
from opshift.passes.types.formats import FORMATS, INTEGERS, Format, as_floats, rounded

if TYPE_CHECKING:
    import numpy as np

T = TensorProto


@dataclass(frozen=True)
class Numbers:
    """What is to be known of a constant before its type changes.

    Attributes:
        size: how many elements it has.
        most: the largest finite magnitude.
        least: the least positive magnitude; infinite without any.
        beyond: whether a finite number is beyond the range of the other type.
        lost: how many numbers become 0.
        channel: whether all that is in a channel, the first or the last axis, becomes 0; of a vector, any number.
    """

    size: int
    most: float
    least: float
    beyond: bool
    lost: int
    channel: bool


def numbers(tensor: TensorProto, target: int, folder: str | None) -> Numbers | None:
    """What a constant holds, with respect to a type; None where its data cannot be had."""
    held = read(tensor, folder)
    if held is None:
        return None
    import numpy as np

    form = FORMATS[target]
    size = np.abs(held)
    finite = np.isfinite(size)
    if not finite.all():
        size = np.where(finite, size, 0)
    most = float(size.max()) if size.size else 0.0
    positive = size > 0
    least = float(size.min(where=positive, initial=np.inf)) if size.size else float("inf")
    lost, channel = 0, False
    if least <= form.vanishes_below:
        gone = positive & (size <= form.vanishes_below)
        lost = int(np.count_nonzero(gone))
        channel = _vanishes(positive, gone)
    return Numbers(int(size.size), most, least, most >= overflow(form), lost, channel)


def overflow(form: Format) -> float:
    """The least number that rounds to infinity."""
    return form.most * (1 + 2.0**-12) if form.integers == 2**11 else form.most * (1 + 1 / (2.0 * form.integers))


def _vanishes(positive: np.ndarray[Any, Any], gone: np.ndarray[Any, Any]) -> bool:
    """Whether all numbers of a channel that are not 0 become 0."""
    if positive.ndim < 2:
        return True
    for axis in (0, positive.ndim - 1):
        others = tuple(each for each in range(positive.ndim) if each != axis)
        some = positive.any(axis=others)
        if bool((some & ~(positive & ~gone).any(axis=others)).any()):
            return True
    return False


def read(tensor: TensorProto, folder: str | None) -> np.ndarray[Any, Any] | None:
    """The numbers of a floating-point tensor; bfloat16 as float32. None where they cannot be had."""
    import numpy as np

    held = tensor_data.load(tensor, folder)
    if held is None:
        return None
    if held.HasField("raw_data"):
        kinds: dict[int, str] = {T.FLOAT: "<f4", T.DOUBLE: "<f8", T.FLOAT16: "<f2", T.BFLOAT16: "<u2"}
        kinds |= {T.INT64: "<i8", T.INT32: "<i4"}
        if held.data_type not in kinds:
            return None
        found = np.frombuffer(held.raw_data, dtype=kinds[held.data_type])
        if found.size != tensors.size(held):
            return None
        if held.data_type == T.BFLOAT16:
            found = (found.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return found.reshape(tuple(held.dims))
    array = tensors.array(held)
    return None if array is None else array.astype(np.float32) if held.data_type == T.BFLOAT16 else array


def converted(tensor: TensorProto, target: int, folder: str | None, limit: float | None = None) -> TensorProto | None:
    """A constant in another type, each number rounded once; None where its data cannot be had.

    With a `limit`, finite numbers beyond the range of the type become that number, with their sign.
    """
    held = read(tensor, folder)
    if held is None:
        return None
    import numpy as np

    if limit is not None and target not in INTEGERS:  # which are cut off
        form = FORMATS[target]
        beyond = np.isfinite(held) & (np.abs(held) >= overflow(form))
        held = np.where(beyond, np.copysign(np.asarray(limit, held.dtype), held), held)
    made = TensorProto(name=tensor.name, data_type=target, dims=tensor.dims, doc_string=tensor.doc_string)
    if "metadata_props" in tensor.DESCRIPTOR.fields_by_name:
        made.metadata_props.extend(tensor.metadata_props)
    made.raw_data = rounded(held, target).tobytes()
    return made


def is_same(narrow: TensorProto, wide: TensorProto, folder: str | None) -> bool:
    """Whether a constant is another one, each number rounded once, and no finite number became infinite."""
    import numpy as np

    one, other = read(narrow, folder), read(wide, folder)
    if one is None or other is None or one.shape != other.shape:
        return one is None and other is None
    expected = as_floats(rounded(other, narrow.data_type), narrow.data_type)
    finite = np.isfinite(one) | ~np.isfinite(other)
    return bool(np.array_equal(one.astype(np.float64), expected, equal_nan=True) and finite.all())

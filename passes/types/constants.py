"""Which numbers a constant holds, and the same constant in another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.recoding import widened
from opshift.passes.records import dataclass
from opshift.passes.types.formats import FORMATS, INTEGERS, Format, rounded

if TYPE_CHECKING:
    import numpy as np

T = TensorProto

_PART = 1 << 15
"""Numbers that are looked at at once."""


@dataclass(frozen=True)
class Numbers:
    """What is to be known of a constant before its type changes.

    Attributes:
        size: how many elements it has.
        most: the largest finite magnitude.
        least: the least positive magnitude that is not a normal number of the other type; infinite without any.
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
    if not held.size:
        return Numbers(0, 0.0, float("inf"), False, 0, False)
    most = max(float(held.max()), -float(held.min()))
    if not np.isfinite(most):
        held = np.where(np.isfinite(held), held, 0)
        most = float(np.abs(held).max())
    least, lost = _smallest(held, form)
    channel = False
    if lost:
        size = np.abs(held)
        channel = _vanishes(size > 0, (size > 0) & (size <= form.vanishes_below))
    return Numbers(held.size, most, least, most >= overflow(form), lost, channel)


def _smallest(held: np.ndarray[Any, Any], form: Format) -> tuple[float, int]:
    """The least positive magnitude among those that are not normal numbers of a type, and how many become 0.

    It is looked for in parts that a processor keeps near.
    """
    import numpy as np

    flat = np.ascontiguousarray(held).reshape(-1)
    least, lost = float("inf"), 0
    buffer = np.empty(min(flat.size, _PART), flat.dtype)
    for start in range(0, flat.size, _PART):
        part = flat[start : start + _PART]
        size = np.abs(part, out=buffer[: part.size])
        low = size[size < form.normal]
        low = low[low > 0]
        if low.size:
            least = min(least, float(low.min()))
            lost += int(np.count_nonzero(low <= form.vanishes_below))
    return least, lost


def overflow(form: Format) -> float:
    """The least number that rounds to infinity: half a step beyond the largest one."""
    digits = form.integers
    return form.most + form.most / (2 - 2 / digits) / digits


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


def converted(
    tensor: TensorProto, target: int, folder: str | None, limit: float | None = None, *, lazy: bool = False
) -> TensorProto | None:
    """A constant in another type, each number rounded once; None where its data cannot be had.

    With a `limit`, finite numbers beyond the range of the type become that number, with their sign. A `lazy` one that
    lies in a file stays there, and is converted when it is written.
    """
    if lazy and limit is None and folder is not None and tensor_data.is_stored(tensor):
        made = TensorProto()
        made.CopyFrom(tensor)
        if tensor_data.retype(made, target):
            return made
    held = read(tensor, folder)
    if held is None:
        return None
    if limit is not None and target not in INTEGERS:  # which are cut off
        held = _limited(held, limit, FORMATS[target])
    made = TensorProto(name=tensor.name, data_type=target, dims=tensor.dims, doc_string=tensor.doc_string)
    if "metadata_props" in tensor.DESCRIPTOR.fields_by_name:
        made.metadata_props.extend(tensor.metadata_props)
    made.raw_data = rounded(held, target).tobytes()
    return made


def _limited(held: np.ndarray[Any, Any], limit: float, form: Format) -> np.ndarray[Any, Any]:
    """Numbers, with those beyond the range of a type cut off at a limit."""
    import numpy as np

    beyond = np.isfinite(held) & (np.abs(held) >= overflow(form))
    return np.where(beyond, np.copysign(np.asarray(limit, held.dtype), held), held)


def is_same(
    narrow: TensorProto,
    wide: TensorProto,
    folder: str | None,
    wide_folder: str | None,
    limit: float | None = None,
) -> bool:
    """Whether a constant is another one, each number rounded once, and no finite number became infinite.

    With a `limit`, those beyond the range are that number, with their sign.
    """
    import numpy as np

    if narrow.data_type == wide.data_type:
        return _is_copy(narrow, wide, folder, wide_folder)
    one, other = read(narrow, folder), read(wide, wide_folder)
    if one is None or other is None or one.shape != other.shape:
        return False
    one, other = one.reshape(-1), other.reshape(-1)
    for start in range(0, one.size, _PART):
        part, expected = one[start : start + _PART], other[start : start + _PART]
        if limit is not None and narrow.data_type not in INTEGERS:
            expected = _limited(expected, limit, FORMATS[narrow.data_type])
        finite = np.isfinite(expected)
        expected = widened(rounded(expected, narrow.data_type), narrow.data_type)
        if not np.array_equal(part, expected, equal_nan=True) or not (np.isfinite(expected) | ~finite).all():
            return False
    return True


def _is_copy(one: TensorProto, other: TensorProto, folder: str | None, other_folder: str | None) -> bool:
    """Whether tensors of one type are the same, in whatever fields their numbers are."""
    held = [tensor_data.load(one, folder), tensor_data.load(other, other_folder)]
    there = [each for each in held if each is not None]
    if len(there) < 2 or list(one.dims) != list(other.dims):
        return not there
    if all(each.HasField("raw_data") for each in there):
        return there[0].raw_data == there[1].raw_data
    arrays = [array for each in there if (array := tensors.array(each)) is not None]
    data = [array.tolist() if array.dtype == object else array.tobytes() for array in arrays]
    return len(data) == 2 and data[0] == data[1]

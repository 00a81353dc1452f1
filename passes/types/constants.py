"""Which numbers a constant holds, and the same constant in another type."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.numbers import read as read_few
from opshift.passes.model.recoding import widen
from opshift.passes.types.formats import FORMATS, INTEGERS, Format, round_array

if TYPE_CHECKING:
    import numpy as np

T = TensorProto

_PART = 1 << 16
"""Numbers that are looked at at once."""
_FEW = 64
"""Numbers up to which numpy takes longer than Python: most constants have no more, and some models need no numpy."""
_DTYPES: dict[int, str] = {T.FLOAT: "<f4", T.DOUBLE: "<f8", T.FLOAT16: "<f2", T.INT64: "<i8", T.INT32: "<i4"}
"""How the numbers of a type lie in a file, of those that numpy has."""


class Numbers(NamedTuple):
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
    """What a constant holds, with respect to a type; None where its data cannot be had.

    Numbers in a file are read in parts that a processor keeps near, so that weights take no memory.
    """
    form, size = FORMATS[target], tensors.size(tensor)
    few = _few(tensor, size)
    if few is not None:
        sizes = list(map(abs, few))
        most, low = max(sizes), [each for each in sizes if 0 < each < form.normal] if min(sizes) < form.normal else []
        lost = sum(each <= form.vanishes_below for each in low) if low else 0
        if len(tensor.dims) < 2 or not lost:
            return Numbers(size, most, min(low, default=math.inf), most >= overflow(form), lost, bool(lost))
    import numpy as np

    most, least, lost, small = 0.0, float("inf"), 0, 0
    try:
        for part in _parts(tensor, folder):
            positive = np.abs(part)
            largest = float(positive.max())
            if not np.isfinite(largest):
                positive[~np.isfinite(positive)] = 0
                largest = float(positive.max())
            most = max(most, largest)
            low = positive[positive < form.normal]
            if low.size:
                small += int(np.count_nonzero(low <= form.vanishes_below))
                low = low[low > 0]
                lost += int(np.count_nonzero(low <= form.vanishes_below))
                least = min(least, float(low.min(initial=np.inf)))
    except (InvalidModel, OSError, ValueError):
        return None
    channel = bool(lost)
    if lost and len(tensor.dims) > 1:
        channel = small >= min(size // tensor.dims[0], size // tensor.dims[-1])  # else none is small as a whole
        held = read(tensor, folder) if channel else None
        if held is not None:
            positive = np.abs(held)
            channel = _vanishes(positive > 0, (positive > 0) & (positive <= form.vanishes_below))
    return Numbers(size, most, least, most >= overflow(form), lost, channel)


def _few(tensor: TensorProto, size: int) -> Sequence[float] | None:
    """The numbers of a small float32 tensor, if all are finite; None for others."""
    if not 0 < size <= _FEW or tensor.data_type != T.FLOAT:
        return None
    data = tensor.raw_data
    few = struct.unpack(f"<{size}f", data) if len(data) == 4 * size else read_few(tensor)
    return few if few is not None and math.isfinite(sum(few)) else None


def _parts(tensor: TensorProto, folder: str | None) -> Iterator[np.ndarray[Any, Any]]:
    """The numbers of a tensor, one part after the other; raises `ValueError` where they cannot be had."""
    import numpy as np

    place = tensor_data.place(tensor) if tensor_data.is_stored(tensor) else None
    dtype = np.dtype(_DTYPES.get(tensor.data_type, "O"))
    plain = place is not None and folder is not None and not place.source and not tensor_data.is_lent(place)
    if place is None or not plain or (place.fields and not place.offset) or dtype.hasobject:
        held = read(tensor, folder)
        if held is None:
            raise ValueError("it has no numbers")
        flat = held.reshape(-1)
        for start in range(0, flat.size, _PART):
            yield flat[start : start + _PART]
        return
    assert folder is not None, "it is stored there"
    left = tensors.size(tensor) * dtype.itemsize
    if place.length not in (None, left):
        raise ValueError("it has another size")
    buffer = bytearray(min(left, _PART * dtype.itemsize))
    with tensor_data.open_file(folder, place) as file:
        file.seek(place.offset)
        while left:
            view = memoryview(buffer)[: min(left, len(buffer))]
            if file.readinto(view) != len(view):  # type: ignore[attr-defined]
                raise ValueError("the external data file is too short for the tensor")
            left -= len(view)
            yield np.frombuffer(view, dtype)


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
        kinds = {**_DTYPES, T.BFLOAT16: "<u2"}
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


def convert_constant(
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
    few = _few(tensor, tensors.size(tensor)) if target == T.FLOAT16 and limit is None else None
    data = None
    if few is not None:
        with suppress(OverflowError):  # one is beyond the range
            data = struct.pack(f"<{len(few)}e", *few)
    if data is None:
        held = read(tensor, folder)
        if held is None:
            return None
        if limit is not None and target not in INTEGERS:  # which are cut off
            held = _limit(held, limit, FORMATS[target])
        data = round_array(held, target).tobytes()
    made = TensorProto(name=tensor.name, data_type=target, dims=tensor.dims, doc_string=tensor.doc_string)
    if props := getattr(tensor, "metadata_props", None):
        made.metadata_props.extend(props)
    made.raw_data = data
    return made


def _limit(held: np.ndarray[Any, Any], limit: float, form: Format) -> np.ndarray[Any, Any]:
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
            expected = _limit(expected, limit, FORMATS[narrow.data_type])
        finite = np.isfinite(expected)
        expected = widen(round_array(expected, narrow.data_type), narrow.data_type)
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

"""Values that a model file holds as numbers of varying length, in the form that external data have, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from opshift.passes.model import tensor_data
from opshift.passes.model.messages import TensorProto

if TYPE_CHECKING:
    import numpy as np

_PART = 1 << 20  # bytes that are unpacked at a time
_LONGEST = 10  # bytes of a number
_NAMES = {field.number: field.name for field in TensorProto.DESCRIPTOR.fields}
_WIDTHS = {8: "u1", 16: "u2", 32: "u4", 64: "u8"}


def values(of: TensorProto, folder: str) -> np.ndarray[Any, Any] | None:
    """What a tensor holds in its model file, as bits in a temporary file that has no name and takes no memory.

    None for texts, for types that are packed, and where there are not as many values as the dims claim.

    Raises:
        InvalidModel, OSError: the bytes cannot be had, or there is no room for them.
    """
    import tempfile

    import numpy as np

    found, kind = tensor_data.place(of), _WIDTHS.get(tensor_data.bits(of.data_type))
    if of.data_type == TensorProto.STRING or kind is None or not tensor_data.nbytes(of):
        return None
    with tempfile.TemporaryFile() as target, tensor_data.open_file(folder, found) as source:
        for start, end in found.fields:
            source.seek(start)
            while source.tell() < end:
                tag, length = _number(source), _number(source)
                if tag & 7 != 2:
                    return None  # one by one: nobody writes so much in that way
                fixed = _NAMES.get(tag >> 3) in ("raw_data", "float_data", "double_data")
                for part in _parts(source, length, whole=fixed):
                    target.write(part if fixed else unpack(part).astype(f"<{kind}").tobytes())
        if target.tell() != tensor_data.nbytes(of):
            return None
        target.flush()
        return np.memmap(target, f"<{kind}", "r+", shape=tuple(of.dims))


def unpack(data: bytes) -> np.ndarray[Any, Any]:
    """Numbers of varying length, each at its end in `data`, as 64 bits."""
    import numpy as np

    held = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(held < 128)
    starts = np.concatenate([[0], ends[:-1] + 1])
    made = np.zeros(len(ends), np.uint64)
    lengths = ends - starts + 1
    for place in range(min(int(lengths.max(initial=0)), _LONGEST)):
        longer = lengths > place
        made[longer] |= (held[starts[longer] + place] & 127).astype(np.uint64) << np.uint64(7 * place)
    return made


def _parts(source: BinaryIO, length: int, *, whole: bool) -> Iterator[bytes]:
    """The next bytes of a file, no number cut in two unless any place will do (`whole`)."""
    rest = b""
    while length:
        read = source.read(min(length, _PART))
        if not read:
            return
        length -= len(read)
        data = rest + read
        end = len(data)
        while not whole and end > len(data) - _LONGEST and end and data[end - 1] > 127:
            end -= 1
        rest = data[end:]
        yield data[:end]


def _number(source: BinaryIO) -> int:
    value = shift = 0
    while shift < 70 and (byte := source.read(1)):
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            break
        shift += 7
    return value

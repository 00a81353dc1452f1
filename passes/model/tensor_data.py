"""Tensors whose bytes lie in a file: which file, where in it, and how to get them.

A tensor refers to external data as ONNX defines it: location, offset, length. A large tensor inside a model file is
held the same way while the model is converted: as a reference into the model file itself, which names the byte ranges
of its data fields under the key `FIELDS`. It comes back into the message, unread, when the model is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from types import ModuleType
from typing import BinaryIO

from opshift.passes.errors import InvalidModel
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.recoding import recode_bytes
from opshift.passes.model.types import ELEMENTS
from opshift.passes.records import dataclass

FIELDS = "opshift.fields"
SOURCE = "opshift.source"
"""The key under which a tensor names the type of its bytes, where it is to have another one once it is read."""

Range = tuple[int, int]

_lent: dict[str, Callable[[int], bytes]] = {}


@dataclass(frozen=True)
class DataPlace:
    """Where the bytes of a tensor lie. Without a length they reach as far as the tensor's dims need.

    `fields` are the byte ranges of its data fields in a model file, tags and lengths included; `stamp` says which
    state of that file they were found in. Both are empty for external data. `source` is the type of the bytes, where
    that is another one than the tensor's; else 0.
    """

    location: str
    offset: int = 0
    length: int | None = None
    fields: tuple[Range, ...] = ()
    stamp: str = ""
    source: int = 0


def is_stored(of: TensorProto) -> bool:
    """Whether the bytes of a tensor lie in a file."""
    return of.data_location == TensorProto.EXTERNAL


def is_embedded(of: TensorProto) -> bool:
    """Whether the file that a tensor's bytes lie in is the model file."""
    return is_stored(of) and any(entry.key == FIELDS for entry in of.external_data)


def place(of: TensorProto) -> DataPlace:
    """What the message of a stored tensor says; raises `InvalidModel` where it is no place in a file."""
    entries = {entry.key: entry.value for entry in of.external_data}
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries["length"]) if "length" in entries else None
        source = int(entries.get(SOURCE) or 0)
        stamp, _, ranges = entries.get(FIELDS, "").partition(" ")
        fields = [(int(start), int(end)) for start, _, end in (text.partition("-") for text in ranges.split())]
    except ValueError:
        offset = -1
        length = None
    if offset < 0 or (length is not None and length < 0):
        raise InvalidModel(f"tensor {of.name!r} has external data whose offset or length is not a number")
    return DataPlace(entries.get("location", ""), offset, length, tuple(fields), stamp, source)


def mark(of: TensorProto, location: str, stamp: str, fields: Sequence[Range], raw: Range | None) -> None:
    """Let a tensor refer to fields in a model file. `raw` is where they hold what external data would hold."""
    refer(of, location, raw)
    of.external_data.add(key=FIELDS, value=" ".join([stamp, *(f"{start}-{end}" for start, end in fields)]))


def embed(of: TensorProto) -> None:
    """Let the external data of a tensor become a part of the model file when it is written."""
    found = place(of)
    length = nbytes(of) if found.length is None else found.length
    refer(of, found.location, (found.offset, found.offset + length))
    of.external_data.add(key=FIELDS, value="")


def retype(of: TensorProto, target: int) -> bool:
    """Let a stored tensor have another type once it is read; False where its bytes lie in no form that allows it."""
    found = place(of)
    if found.location in _lent or found.source or (found.fields and not found.offset):
        return False
    length = nbytes(of) if found.length is None else found.length
    outside = not is_embedded(of)
    source, of.data_type = of.data_type, target
    refer(of, found.location, (found.offset, found.offset + length))
    of.external_data.add(key=FIELDS, value=f"{found.stamp} ")
    of.external_data.add(key=SOURCE, value=str(source))
    if outside:
        of.external_data.add(key=OUTSIDE, value="1")
    return True


OUTSIDE = "opshift.outside"
"""The key that says that such a tensor was external data, and is to be so again."""


def was_outside(of: TensorProto) -> bool:
    """Whether a tensor of another type was external data."""
    return is_stored(of) and any(entry.key == OUTSIDE for entry in of.external_data)


def refer(of: TensorProto, location: str, raw: Range | None) -> None:
    """Let a tensor refer to a byte range of a file."""
    del of.external_data[:]
    of.data_location = TensorProto.EXTERNAL
    of.external_data.add(key="location", value=location)
    if raw is not None:
        of.external_data.add(key="offset", value=str(raw[0]))
        of.external_data.add(key="length", value=str(raw[1] - raw[0]))


def path(folder: str | os.PathLike[str], location: str) -> str:
    """The file that a location means; raises `InvalidModel` for one that leads out of the folder, or through a link."""
    found = os.path.realpath(folder)
    for part in parts_of(location):
        found = os.path.join(found, part)
        if os.path.islink(found) or _is_junction(found):
            raise InvalidModel(
                f"external data {location!r} is a symbolic link, which opshift does not follow; replace it by the file"
            )
    return reachable(found)


_is_junction: Callable[[str], bool] = getattr(os.path, "isjunction", lambda _: False)  # what Windows has for folders


def parts_of(location: str, flavour: ModuleType = os.path) -> list[str]:
    """The folders and the file that a location means; raises `InvalidModel` for one that leads out of the folder.

    `flavour` is the system's kind of paths, `posixpath` or `ntpath`.
    """
    windows = flavour.sep == "\\"
    # there, a path that begins with a drive or a separator leads elsewhere, and a colon to another stream of a file
    outside = flavour.isabs(location) or (windows and (":" in location or location[:1] in ("/", "\\")))
    if not location or "\0" in location or outside or ".." in location.replace("\\", "/").split("/"):
        raise InvalidModel(f"external data {location!r} is outside the model's folder, where opshift does not read")
    return [str(part) for part in flavour.normpath(location).split(flavour.sep)]


def location_of(path: str, folder: str | os.PathLike[str], flavour: ModuleType = os.path) -> str:
    """How a file is referred to from a folder: with slashes, whatever the system separates names by.

    What lies on another drive is referred to by its whole path.
    """
    whole, base = (_plain(os.fspath(each)) if flavour.sep == "\\" else os.fspath(each) for each in (path, folder))
    if flavour.splitdrive(whole)[0].lower() == flavour.splitdrive(base)[0].lower():
        whole = flavour.relpath(whole, base)
    return str(whole).replace(flavour.sep, "/")


def _plain(path: str) -> str:
    """A path of Windows without the prefix by which long ones are opened."""
    return path.replace("\\\\?\\UNC\\", "\\\\", 1).replace("\\\\?\\", "", 1) if path.startswith("\\\\?\\") else path


_LONGEST = (
    240  # characters: Windows opens paths of 260 and more only where they say that nothing in them stands for more
)


def reachable(path: str, flavour: ModuleType = os.path) -> str:
    """A path that the system opens, however long it is."""
    if flavour.sep != "\\" or len(path) < _LONGEST or path.startswith("\\\\?\\"):
        return path
    whole = flavour.normpath(path if flavour.isabs(path) else os.path.abspath(path))
    return f"\\\\?\\UNC{whole[1:]}" if whole.startswith("\\\\") else f"\\\\?\\{whole}"


def open_file(folder: str | os.PathLike[str], found: DataPlace) -> BinaryIO:
    """The file of a place; raises `InvalidModel` where it is not safe, not there, or too short."""
    try:
        file = open(path(folder, found.location), "rb", opener=regular)  # noqa: SIM115 (the caller closes it)
    except OSError as error:
        raise InvalidModel(f"external data {found.location!r} cannot be read: {error.strerror or error}") from None
    problem = misfit(found, os.fstat(file.fileno()))
    if problem:
        file.close()
        raise InvalidModel(problem)
    return file


def regular(name: str, flags: int) -> int:
    """Open without following a link and without waiting for the other end of a pipe."""
    handle = os.open(name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, "no regular file")
    return handle


def misfit(found: DataPlace, status: os.stat_result) -> str:
    """Why a file cannot hold what is said to lie there; empty if it can."""
    if found.stamp and found.stamp != stamp_of(status):
        return f"{found.location}: the file changed while it was read"
    if found.offset + (found.length or 0) > status.st_size:
        end = found.offset + (found.length or 0)
        return (
            f"external data {found.location!r} has {status.st_size} bytes; a tensor needs bytes {found.offset} to {end}"
        )
    return ""


def stamp_of(status: os.stat_result) -> str:
    """What tells one state of a file from another."""
    return f"{status.st_size}.{status.st_mtime_ns}"


def bits(data_type: int) -> int:
    """How wide a value of a type is."""
    return ELEMENTS[data_type].bits if data_type in ELEMENTS else 8


def nbytes(of: TensorProto) -> int:
    """How many bytes the dims claim; what is narrower than a byte is packed."""
    return (prod(of.dims) * bits(of.data_type) + 7) // 8


def load(of: TensorProto, folder: str | None) -> TensorProto | None:
    """The tensor with its bytes in the message; None if they cannot be had. One that has them is returned as it is."""
    if not is_stored(of):
        return of
    try:
        return load_or_raise(of, folder)
    except (InvalidModel, OSError):
        return None


@contextmanager
def lend(read: Callable[[int], bytes]) -> Iterator[str]:
    """Offer a location for external data that is no file: while this lasts, `read` returns the bytes at an offset."""
    location = f"opshift:{os.urandom(8).hex()}"
    _lent[location] = read
    try:
        yield location
    finally:
        del _lent[location]


def is_lent(found: DataPlace) -> bool:
    """Whether a place is no file, but lent."""
    return found.location in _lent


def load_or_raise(of: TensorProto, folder: str | None) -> TensorProto:
    """A copy of a stored tensor with its bytes in the message; raises `InvalidModel` where they cannot be had."""
    found = place(of)
    read = _lent.get(found.location)
    if read is None and folder is None:
        raise InvalidModel(
            f"tensor {of.name!r} has external data in {found.location!r}, but the model was given "
            "without the path of its folder"
        )
    made = TensorProto()
    made.CopyFrom(of)
    del made.external_data[:]
    made.ClearField("data_location")
    if read is not None:
        made.raw_data = read(found.offset)
        return made
    assert folder is not None, "without one, only what is lent can be had"
    with open_file(folder, found) as file:
        if found.fields:
            made.MergeFromString(b"".join(_read(file, start, end - start) for start, end in found.fields))
        else:
            length = nbytes(of) if found.length is None else found.length
            data = _read(file, found.offset, length)
            made.raw_data = bytes(recode_bytes(data, found.source, of.data_type)) if found.source else data
    return made


def _read(file: BinaryIO, offset: int, length: int) -> bytes:
    """Bytes of a file; never more memory than the file has bytes, whatever the length claims."""
    if offset + length > os.fstat(file.fileno()).st_size:
        raise InvalidModel("the external data file is too short for the tensor")
    file.seek(offset)
    return file.read(length)

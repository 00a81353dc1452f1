"""Bytes of files, copied into other files, in the kernel where it can."""

from __future__ import annotations

import os
from typing import BinaryIO

from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data
from opshift.passes.model.recoding import recode_bytes

_FALL_BACK = ("EXDEV", "ENOSYS", "EINVAL", "EOPNOTSUPP", "EPERM", "EBADF", "ETXTBSY")
_CHUNK = 1 << 20
_NUMBERS = 1 << 20  # bytes of numbers that get another type at a time


def copy_range(source: int, target: int, start: int, end: int) -> None:
    """Append bytes of one open file to another, in the kernel where it can.

    Raises:
        OSError: as the system does, or because the file ends before `end`.
    """
    copy = _in_kernel
    while start < end:
        done = copy(source, target, start, end - start)
        if done is None:
            copy = _by_hand
            continue
        if not done:
            raise OSError(0, "the file became shorter while it was copied")
        start += done


def _in_kernel(source: int, target: int, start: int, count: int) -> int | None:
    import errno

    if not hasattr(os, "copy_file_range"):
        return None
    try:
        return os.copy_file_range(source, target, min(count, 1 << 30), start) or None
    except OSError as error:
        if error.errno in [getattr(errno, name, None) for name in _FALL_BACK]:  # two names may be one number
            return None
        raise


def _by_hand(source: int, target: int, start: int, count: int) -> int | None:
    os.lseek(source, start, os.SEEK_SET)  # not every system has pread
    data = os.read(source, min(count, _CHUNK))
    write_all(target, data)
    return len(data)


def recode(source: int, target: int, found: tensor_data.DataPlace, elem_type: int) -> None:
    """Append numbers of one open file to another as such of another type, in pieces.

    Raises:
        OSError: as the system does, or because the file ends too early.
    """
    left = found.length or 0
    os.lseek(source, found.offset, os.SEEK_SET)
    buffer = memoryview(bytearray(min(left, _NUMBERS)))
    with open(source, "rb", buffering=0, closefd=False) as file:
        while left:
            filled, part = 0, buffer[: min(left, _NUMBERS)]
            while filled < len(part):
                count = file.readinto(part[filled:])
                if not count:
                    raise OSError(0, "the file ended while it was copied")
                filled += count
            write_all(target, recode_bytes(part, found.source, elem_type))
            left -= filled


def write_all(target: int, data: bytes | memoryview) -> None:
    """Append bytes to an open file."""
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


class Sources:
    """The files in a folder that data are copied from, each opened once. Used as a context."""

    def __init__(self, folder: str | os.PathLike[str]):
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}

    def open(self, found: tensor_data.DataPlace) -> int:
        """The descriptor of a place's file; raises `InvalidModel` where it is not safe, not there, or has changed."""
        if found.location not in self._files:
            self._files[found.location] = tensor_data.open_file(self._folder, found)
        file = self._files[found.location]
        if problem := tensor_data.misfit(found, os.fstat(file.fileno())):
            raise InvalidModel(problem)
        return file.fileno()

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

"""What cannot be written, told with the path that the user gave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class CannotWrite(OSError):
    """An output cannot be written: no room, no rights, no folder, or something in its place."""


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Tell of what fails inside as of `path`, whatever file beside it was at fault.

    Raises:
        CannotWrite: an `OSError` was raised; what must not be overwritten keeps its own name.
    """
    try:
        yield
    except FileExistsError as error:
        raise CannotWrite(error.errno, error.strerror, error.filename) from None
    except OSError as error:
        raise CannotWrite(error.errno, error.strerror or str(error), os.fspath(path)) from None


@contextmanager
def told(path: str, text: str) -> Iterator[None]:
    """Write a text that tells of what is done inside. What cannot be told is not done, and what fails is not told.

    Raises:
        CannotWrite: it cannot be written.
    """
    final = Path(path)
    lasting = final.exists() and not final.is_file()  # a pipe, or a device
    target = final if lasting else final.with_name(f".{final.name[:100]}.{os.urandom(6).hex()}.part")
    try:
        with writing(path):
            target.write_text(text, encoding="utf-8")
            if not lasting:
                os.replace(target, final)
    except CannotWrite:
        if not lasting:
            target.unlink(missing_ok=True)
        raise
    try:
        yield
    except BaseException:
        if not lasting:
            final.unlink(missing_ok=True)
        raise

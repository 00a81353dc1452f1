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
    """Write a text that tells of what is done inside. What cannot be told is not done, and what fails is not told: then
    what stood at the path before stands there again.

    Raises:
        CannotWrite: it cannot be written.
    """
    final = Path(path)
    if final.exists() and not final.is_file():  # a pipe, or a device
        with writing(path):
            final.write_text(text, encoding="utf-8")
        yield
        return
    made, older = (final.with_name(f".{final.name[:100]}.{os.urandom(6).hex()}.{kind}") for kind in ("part", "older"))
    try:
        with writing(path):
            made.write_text(text, encoding="utf-8")
            if os.path.lexists(final):
                os.replace(final, older)
            os.replace(made, final)
        yield
    except BaseException:
        if os.path.lexists(older):
            os.replace(older, final)
        elif not made.exists():
            final.unlink(missing_ok=True)
        made.unlink(missing_ok=True)
        raise
    older.unlink(missing_ok=True)

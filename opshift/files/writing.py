"""What cannot be written, told with the path that the user gave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


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


def follow_link(path: Path) -> Path:
    """Where a file is written that a path names: a link stays one, whoever wrote what it points to."""
    with writing(path):
        return Path(os.path.realpath(path)) if path.is_symlink() else path


def scratch(within: str | None = None) -> TemporaryDirectory[str]:
    """A folder for as long as its context lasts. What is still open then stays on Windows, which is no error."""
    from tempfile import TemporaryDirectory  # slow to import

    return TemporaryDirectory(prefix="opshift-", dir=within, ignore_cleanup_errors=True)


def discard(path: Path) -> None:
    """Remove a file of ours, if it is there and can be removed: what kept it from being written is told, not this."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


@contextmanager
def write_beside(path: str, text: str) -> Iterator[None]:
    """Write a text that tells of what is done inside. What cannot be told is not done, and what fails is not told: then
    what stood at the path before stands there again.

    Raises:
        CannotWrite: it cannot be written.
    """
    final = follow_link(Path(path))
    if final.exists() and not final.is_file():  # a pipe, or a device
        with writing(path):
            final.write_text(text, encoding="utf-8", newline="\n")
        yield
        return
    made, older = (final.with_name(f".{final.name[:100]}.{os.urandom(6).hex()}.{kind}") for kind in ("part", "older"))
    try:
        with writing(path):
            made.write_text(text, encoding="utf-8", newline="\n")
            if os.path.lexists(final):
                os.replace(final, older)
            os.replace(made, final)
        yield
    except BaseException:
        if os.path.lexists(older):
            os.replace(older, final)
        elif not made.exists():
            discard(final)
        discard(made)
        raise
    discard(older)

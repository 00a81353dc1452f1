"""What cannot be written, told with the path that the user gave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


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

"""The exit codes, and what an error means to a user.

0 done; 1 a bug in opshift; 2 usage; 3 refused, or not verified; 4 the outputs differ; 5 unreadable or invalid input; 6
the output cannot be written; 130 interrupted; 141 nobody reads what is printed. The output exists only if it is 0. With
several models, the largest code counts.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opshift.verification.verdict import Verification

DONE, DEFECT, USAGE, REFUSED, DIFFERENT, UNREADABLE, UNWRITABLE, INTERRUPTED, UNHEARD = 0, 1, 2, 3, 4, 5, 6, 130, 141
NAMES = {
    DONE: "done",
    DEFECT: "defect",
    USAGE: "not possible",
    REFUSED: "refused",
    DIFFERENT: "different",
    UNREADABLE: "unreadable",
    UNWRITABLE: "cannot be written",
    INTERRUPTED: "interrupted",
}


def fault(error: Exception, *models: str) -> tuple[int, list[str]]:
    """Map an exception to an exit code and the lines to print. Called once, by the command line, for any error."""
    from opshift.files.writing import CannotWrite
    from opshift.passes.errors import InvalidModel, Refused

    if isinstance(error, InvalidModel):
        return UNREADABLE, [_NO_TEXT if any(map(_is_damaged, models)) else str(error)]
    if isinstance(error, Refused):
        return REFUSED, str(error).splitlines()
    if isinstance(error, ValueError):
        return USAGE, str(error).splitlines()
    if isinstance(error, CannotWrite):
        return UNWRITABLE, [f"{error.filename} cannot be written: {error.strerror}"]
    if (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or _is_full(error)
    ):
        return UNREADABLE, ["not enough memory for this model"]
    if isinstance(error, OSError):
        return UNREADABLE, [f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")]
    if isinstance(error, ImportError) and not (error.name or "opshift").startswith("opshift"):
        return USAGE, [str(error)]
    if isinstance(error, RecursionError):
        return UNREADABLE, ["the model is nested too deeply"]
    if any(map(_is_damaged, models)):
        return UNREADABLE, [_NO_TEXT]
    return DEFECT, [f"a bug in opshift: {type(error).__name__}: {error} (OPSHIFT_DEBUG=1 shows the traceback)"]


def _is_full(error: Exception) -> bool:
    """Whether there was no memory to load a compiled module."""
    return isinstance(error, ImportError) and any(why in str(error) for why in _FULL)


_FULL = ("failed to map segment", "Cannot allocate memory", "cannot allocate memory", "paging file is too small")
_NO_TEXT = "the model has names that are not UTF-8"


def _is_damaged(model: str) -> bool:
    """Whether a name in the model is not valid UTF-8.

    Reads the whole model, so it is called only to explain an error.
    """
    from opshift.files import model_file

    try:
        return not model_file.names_are_texts(model_file.read(model))
    except Exception:  # what led here is what is told
        return False


def code_of(found: Verification | None) -> int:
    """Map the answer of a verification to an exit code. Runs at the end of a command."""
    if found is None or found.equal:
        return DONE
    return DIFFERENT if found.status == "different" else REFUSED

"""Files of other formats, each read as an ONNX model by an extra that is imported where there is such a file."""

from __future__ import annotations

import importlib
import os
from typing import Any, Protocol

from opshift.passes.changes import Change
from opshift.passes.model.messages import ModelProto

_READERS = {".xml": "opshift.passes.openvino.reader"}
"""By suffix, the module whose `read(path)` makes a `Reading`."""


class Reading(Protocol):
    """A file as ONNX, and the parts of it that are `close` there."""

    @property
    def model(self) -> ModelProto: ...

    @property
    def changes(self) -> tuple[Change, ...]: ...


def is_foreign(path: str | os.PathLike[str]) -> bool:
    """Whether a file is of another format, by its name."""
    return _suffix(path) in _READERS


def read(path: str | os.PathLike[str]) -> Reading:
    """The file as an ONNX model.

    Raises:
        InvalidModel: a file is missing, is not what its suffix says, or does not hold together.
        Refused: parts of it have no counterpart in ONNX; all of them are named.
    """
    reader: Any = importlib.import_module(_READERS[_suffix(path)])
    reading: Reading = reader.read(path)
    return reading


def without_suffix(name: str) -> str:
    """The name of a foreign file without its suffix."""
    return name[: -len(_suffix(name))]


def _suffix(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(path).lower())[1]

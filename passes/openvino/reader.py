"""Reads OpenVINO IR, a network in a `.xml` with its weights in the `.bin` beside it, as an ONNX model."""

from __future__ import annotations

import os
from pathlib import Path

from opshift.passes.changes import Change
from opshift.passes.errors import Refused
from opshift.passes.model.messages import ModelProto
from opshift.passes.openvino.translate import translate
from opshift.passes.openvino.xml_file import parse
from opshift.passes.records import dataclass


@dataclass(frozen=True)
class Reading:
    """A network as ONNX, and the layers that are `close` there."""

    model: ModelProto
    changes: tuple[Change, ...]


def read(path: str | os.PathLike[str]) -> Reading:
    """The network in a file as an ONNX model, whose weights are external data in the `.bin` beside the file.

    Args:
        path: the `.xml` file.

    Raises:
        InvalidModel: a file is missing, is no IR, or does not hold together.
        Refused: layers have no counterpart in ONNX; all of them are named.
    """
    network = parse(path)
    made = translate(network, str(Path(path).resolve().parent))
    if made.model is None:
        raise Refused(made.refusals, target="ONNX")
    return Reading(made.model, made.changes)

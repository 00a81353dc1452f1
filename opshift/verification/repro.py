"""Write the smallest pair of models that still differs, with inputs, outputs and a command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opshift.files import external
from opshift.files.writing import writing
from opshift.passes.model.messages import TypeProto
from opshift.passes.model.pieces import Pieces
from opshift.passes.records import replace
from opshift.verification.engines import EngineError
from opshift.verification.parts import type_of
from opshift.verification.proof import Failure
from opshift.verification.side import Side

COMMAND = "opshift verify before.onnx after.onnx"
GIVEN = "--inputs inputs"


def write(folder: str, before: Side, after: Side, failure: Failure) -> bool:
    """Write `before.onnx`, `after.onnx`, `inputs/`, if any, `outputs-before/`, `outputs-after/`, and `command.txt`.

    The models hold only the nodes that compute the first value that differs.

    Returns:
        True if both models ran, and were written.

    Raises:
        CannotWrite: the folder cannot be written.
    """
    place, tensor = Path(folder), failure.tensor
    try:
        types = {name: type_of(value, is_fixed=True) for name, value in failure.values.items()}
        sides = [_cut_out(side, tensor, types) for side in (before, after)]
        outputs = [side.open().run(failure.values)[0] for side in sides]
        for side, value in zip(sides, outputs, strict=True):
            side.model.graph.output[0].type.CopyFrom(type_of(value, is_fixed=True))
    except (EngineError, ValueError):  # or it has no type that a model could declare
        return False
    read = {value.name for side in sides for value in side.model.graph.input}
    given = {name: value for name, value in failure.values.items() if name in read}
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        if given:  # what differs may be a constant
            write_tensors(place / "inputs", "input", given)
        for side, name, value in zip(sides, ("before", "after"), outputs, strict=True):
            (place / f"{name}.onnx").write_bytes(side.model.SerializeToString())
            write_tensors(place / f"outputs-{name}", "output", {tensor: value})
        command = f"{COMMAND} {GIVEN}\n" if given else f"{COMMAND}\n"
        (place / "command.txt").write_text(command, encoding="utf-8", newline="\n")
    return True


def _cut_out(side: Side, tensor: str, types: Mapping[str, TypeProto]) -> Side:
    """Cut out the nodes that compute a value from others, weights included. Used for `--repro`."""
    pieces = Pieces(side.model)
    read = set(pieces.between([tensor], types)[1])
    model = pieces.cut([tensor], {name: value_type for name, value_type in types.items() if name in read})
    if side.folder is not None:
        model = external.runnable(model, side.folder, embedded=True)
    return replace(side, model=model, folder=None)


def write_tensors(folder: Path, name: str, values: Mapping[str, Any]) -> None:
    """Write ONNX test data: `input_0.pb`, one tensor a file. Used for `--repro`."""
    from onnx import numpy_helper

    folder.mkdir(parents=True, exist_ok=True)
    for index, (tensor, value) in enumerate(values.items()):
        message = (
            numpy_helper.from_list(list(value), tensor)
            if isinstance(value, (list, tuple))
            else numpy_helper.from_array(value, tensor)
        )
        (folder / f"{name}_{index}.pb").write_bytes(message.SerializeToString())

"""Write the smallest pair of models that still differs, with inputs, outputs and a command.

Weights that both models have are taken out, if the pair also differs with others drawn like them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opshift.files import external, stripping
from opshift.files.writing import scratch, writing
from opshift.passes.errors import InvalidModel
from opshift.passes.model.messages import ModelProto, TypeProto
from opshift.passes.model.pieces import Pieces
from opshift.passes.records import replace
from opshift.verification.bounds import compare
from opshift.verification.engines import EngineError
from opshift.verification.parts import type_of
from opshift.verification.proof import Failure
from opshift.verification.side import Side

COMMAND = "opshift verify before.onnx after.onnx"
GIVEN = "--inputs inputs"
FILL = "opshift fill {0}.onnx {0}-filled.onnx"
FILLED = "opshift verify before-filled.onnx after-filled.onnx"


def write(folder: str, before: Side, after: Side, failure: Failure) -> bool:
    """Write `before.onnx`, `after.onnx`, `inputs/`, if any, `outputs-before/`, `outputs-after/`, and `command.txt`.

    The models hold the nodes by which the two compute other values from the same ones.

    Returns:
        Whether both ran, so that there was something to write.

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
    stripped, drawn_outputs = _without_weights(sides, failure.values)
    outputs = drawn_outputs or outputs
    read = {value.name for side in sides for value in side.model.graph.input}
    given = {name: value for name, value in failure.values.items() if name in read}
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        if given:  # what differs may be a constant
            write_tensors(place / "inputs", "input", given)
        for side, name, value in zip(sides, ("before", "after"), outputs, strict=True):
            model = stripped.get(name, side.model)
            (place / f"{name}.onnx").write_bytes(model.SerializeToString())
            write_tensors(place / f"outputs-{name}", "output", {tensor: value})
        command = f"{FILLED if stripped else COMMAND}{f' {GIVEN}' if given else ''}"
        lines = [*(FILL.format(name) for name in stripped), command]
        (place / "command.txt").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return True


def _without_weights(sides: Sequence[Side], values: Mapping[str, Any]) -> tuple[dict[str, ModelProto], list[Any]]:
    """Try drawn weights in place of those that both models share, so that the folder stays small; empty if the
    models agree with them. Used for `--repro`.
    """
    stripped = stripping.strip_alike([side.model for side in sides])
    if not stripped:
        return {}, []
    outputs: list[Any] = []
    try:
        for side, model in zip(sides, stripped, strict=True):
            with scratch() as folder:
                filled, _ = stripping.fill(model, Path(folder))
                whole = external.runnable(filled, folder, embedded=True)
                outputs.append(replace(side, model=whole).open().run(values)[0])
    except (EngineError, InvalidModel):
        return {}, []
    if not compare(outputs[0], outputs[1], "close").why:
        return {}, []
    return dict(zip(("before", "after"), stripped, strict=True)), outputs


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

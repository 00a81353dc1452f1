"""The smallest pair of models that still differ, written to a folder with inputs, both outputs and a command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opshift.files import external
from opshift.files.writing import writing
from opshift.passes.model.messages import TypeProto
from opshift.passes.model.types import tensor_type
from opshift.passes.records import replace
from opshift.verification.adapters import JUDGES
from opshift.verification.engines import EngineError, OnnxRuntime
from opshift.verification.places.locate import Differs, Place
from opshift.verification.places.pieces import Pieces
from opshift.verification.side import Side
from opshift.verification.tolerances import Tolerance

COMMAND = "opshift verify before.onnx after.onnx"
GIVEN = "--inputs inputs"


def write(
    folder: Path,
    before: Side,
    after: Side,
    given: Mapping[str, Any],
    place: Place,
    differs: Differs,
    asked: Tolerance | None = None,
) -> bool:
    """Write `before.onnx`, `after.onnx`, `inputs/`, if any, `outputs-before/`, `outputs-after/`, and `command.txt`.

    The models hold what computes `place.tensor` from values that agree; where that alone does not differ any more, all
    that computes it from the inputs. `asked` is what the user allows that tensor.

    Returns:
        Whether what was written differs where it is run again.

    Raises:
        CannotWrite: the folder cannot be written.
    """
    for values in (place.values, given):
        try:
            sides, fed = cut(before, after, place.tensor, values)
            outputs = [side.open().run(fed)[0] for side in sides]
        except EngineError:
            continue
        if differs(outputs[0], outputs[1], place.tensor):
            break
    else:
        return False
    if any(value is None for value in outputs):  # has no type that a model could declare
        return False
    for side, value in zip(sides, outputs, strict=True):
        side.model.graph.output[0].type.CopyFrom(_type_of(value))
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if fed:  # what differs may be a constant
            write_tensors(folder / "inputs", "input", fed)
        for side, name, value in zip(sides, ("before", "after"), outputs, strict=True):
            (folder / f"{name}.onnx").write_bytes(side.model.SerializeToString())
            write_tensors(folder / f"outputs-{name}", "output", {place.tensor: value})
        command = _command(sides, place.tensor, asked, given=bool(fed))
        (folder / "command.txt").write_text(f"{command}\n", encoding="utf-8", newline="\n")
    return True


def _command(sides: Sequence[Side], tensor: str, asked: Tolerance | None, *, given: bool) -> str:
    """What shows the difference again, in the same engines."""
    names = [name for side in sides for name, engine in JUDGES.items() if side.engine is engine]
    options = GIVEN.split() if given else []
    options += ["--engine", ",".join(names)] if any(side.engine is not OnnxRuntime for side in sides) else []
    if asked is not None:
        options += ["--rtol", f"{tensor}:{asked.rtol:g}", "--atol", f"{tensor}:{asked.atol:g}"]
    return shlex.join([*COMMAND.split(), *options])


def cut(before: Side, after: Side, tensor: str, values: Mapping[str, Any]) -> tuple[list[Side], dict[str, Any]]:
    """What computes a value from others in both models, with the same inputs, weights embedded."""
    types = {name: _type_of(value) for name, value in values.items()}
    read = {
        name for side in (before, after) for name in Pieces(side.model).between([tensor], types)[1] if name in types
    }
    types = {name: kind for name, kind in types.items() if name in read}
    return [_piece(side, tensor, types) for side in (before, after)], {name: values[name] for name in types}


def _piece(side: Side, tensor: str, types: Mapping[str, TypeProto]) -> Side:
    model = Pieces(side.model).cut([tensor], types)
    if side.folder is not None:
        model = external.runnable(model, side.folder, embedded=True)
    return replace(side, model=model, folder=None)


def _type_of(value: Any) -> TypeProto:
    from onnx import helper

    if value is None:  # an optional value that holds nothing; of what, nobody knows
        raise EngineError("a value that is absent cannot be given")
    if isinstance(value, (list, tuple)):
        element = _type_of(value[0]) if value else tensor_type(1)
        return TypeProto(sequence_type=TypeProto.Sequence(elem_type=element))
    return tensor_type(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def write_tensors(folder: Path, name: str, values: Mapping[str, Any]) -> None:
    """As published test data are laid out: `input_0.pb`, one tensor a file."""
    from onnx import numpy_helper

    folder.mkdir(parents=True, exist_ok=True)
    for index, (tensor, value) in enumerate(values.items()):
        made = (
            numpy_helper.from_list(list(value), tensor)
            if isinstance(value, (list, tuple))
            else numpy_helper.from_array(value, tensor)
        )
        (folder / f"{name}_{index}.pb").write_bytes(made.SerializeToString())

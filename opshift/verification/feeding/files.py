"""Read and write inputs: numpy arrays, and ONNX test data."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opshift.files.writing import discard, writing
from opshift.passes.model import tensor_data
from opshift.passes.model.messages import TypeProto

if TYPE_CHECKING:
    from opshift.verification.engines import Feeds

_NUMBERED = re.compile(r"input_(\d+)\.pb")
_SET = re.compile(r"test_data_set_(\d+)")
_OF_SET = re.compile(r"(\d+)/(.+)", re.DOTALL)


def read(path: str | os.PathLike[str], inputs: Mapping[str, TypeProto]) -> list[Feeds]:
    """Read sets of inputs from a file or a folder: `.npz`, `.npy` for a single input, or ONNX test data.

    Runs for `--inputs`.

    A `.npz` of several sets names them `0/x`, `1/x`. A folder holds `input_0.pb`, `input_1.pb` and so on, in the order
    of the model's inputs, or folders `test_data_set_0` and so on of these.

    Raises:
        ValueError: it holds inputs that the model does not have.
        OSError: it cannot be read.
    """
    from zipfile import BadZipFile

    import numpy as np

    place = Path(tensor_data.reachable(os.fspath(path)))
    if place.is_dir():
        return _read_folder(place, inputs)
    try:
        with open(place, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            held = loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, BadZipFile):
        raise _unreadable(place, "not a .npz or .npy that numpy can read without running code") from None
    if isinstance(held, dict):
        return _split_sets(held, inputs)
    if len(inputs) != 1:
        raise ValueError(f"{place} holds one array, the model has {len(inputs)} inputs; give a .npz of arrays by name")
    return [dict.fromkeys(inputs, held)]


def _split_sets(arrays: Mapping[str, Any], inputs: Mapping[str, TypeProto]) -> list[Feeds]:
    """Split the arrays of a .npz into sets. Part of `read`."""
    sets: dict[int, dict[str, Any]] = {}
    for key, array in arrays.items():
        of = None if key in inputs else _OF_SET.fullmatch(key)
        sets.setdefault(int(of[1]) if of else 0, {})[of[2] if of else key] = array
    return [sets[number] for number in sorted(sets)]


def _read_folder(place: Path, inputs: Mapping[str, TypeProto]) -> list[Feeds]:
    """Read a folder of ONNX test data: one set, or `test_data_set_0` and so on. Part of `read`."""
    parts = sorted((int(match[1]), entry) for entry in place.iterdir() if (match := _SET.fullmatch(entry.name)))
    sets = [part for _, part in parts] or [place]
    return [_read_set(part, inputs) for part in sets]


def _read_set(place: Path, inputs: Mapping[str, TypeProto]) -> Feeds:
    """Read one set of ONNX test data: `input_0.pb` and so on. Part of `read`."""
    files = sorted((int(match[1]), entry) for entry in place.iterdir() if (match := _NUMBERED.fullmatch(entry.name)))
    if not files:
        raise _unreadable(place, "input_0.pb is missing")
    if files[-1][0] >= len(inputs):
        raise ValueError(f"too many files ({files[-1][1]}); the model has {len(inputs)} inputs")
    names = list(inputs)
    return {names[number]: _read_message(file, inputs[names[number]]) for number, file in files}


def _read_message(file: Path, value_type: TypeProto) -> Any:
    """Read one file of ONNX test data by the type of its input. Part of `read`."""
    import onnx
    import onnx.numpy_helper as helper
    from google.protobuf.message import DecodeError

    data = file.read_bytes()
    try:
        match value_type.WhichOneof("value"):
            case "sequence_type":
                return helper.to_list(onnx.SequenceProto.FromString(data))
            case "optional_type":
                return helper.to_optional(onnx.OptionalProto.FromString(data))
            case _:
                return helper.to_array(onnx.TensorProto.FromString(data))
    except (DecodeError, ValueError, TypeError) as error:
        raise _unreadable(file, f"no {value_type.WhichOneof('value')} of ONNX ({error})") from None


def _unreadable(place: Path, why: str) -> OSError:
    return OSError(errno.EINVAL, why, str(place))


def save(path: str, sets: Sequence[Feeds], inputs: Mapping[str, TypeProto]) -> None:
    """Save sets of inputs in a `.npz` or a folder, so that `read` finds them again.

    Raises:
        CannotWrite: it cannot be written.
    """
    with writing(path):
        if Path(path).suffix == ".npz":
            _save_arrays(path, sets)
            return
        for number, feeds in enumerate(sets):
            folder = Path(path, f"test_data_set_{number}")
            folder.mkdir(parents=True, exist_ok=True)
            for index, (name, value_type) in enumerate(inputs.items()):
                (folder / f"input_{index}.pb").write_bytes(_serialize(name, feeds[name], value_type))


def _save_arrays(path: str, sets: Sequence[Feeds]) -> None:
    """Save sets of inputs in a .npz file, under another name until it is complete. Part of `save`, for
    `--save-inputs`.
    """
    import numpy as np

    single = len(sets) == 1
    arrays: dict[str, Any] = {}
    for number, feeds in enumerate(sets):
        for name, value in feeds.items():
            if value is None or isinstance(value, list):
                raise ValueError(
                    f"a .npz file cannot hold the type of input {name!r}; give a folder, which gets ONNX test data"
                )
            array = np.asarray(value)
            arrays[name if single else f"{number}/{name}"] = array.astype(str) if array.dtype.kind == "O" else array
    draft = f"{path}.part"
    try:
        with open(draft, "wb") as file:
            np.savez(file, **arrays)
        os.replace(draft, path)
    finally:
        discard(Path(draft))


def _serialize(name: str, value: Any, value_type: TypeProto) -> bytes:
    """Write one value as ONNX test data. Part of `save`, for `--save-inputs`."""
    import numpy as np
    import onnx.numpy_helper as helper

    match value_type.WhichOneof("value"):
        case "sequence_type":
            return helper.from_list(value, name).SerializeToString()
        case "optional_type":
            return helper.from_optional(value, name).SerializeToString()
        case _:
            return helper.from_array(np.asarray(value), name).SerializeToString()

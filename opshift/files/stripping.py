"""Takes the weights out of a model, so that it can be shared, and draws others like them.

A tensor that goes becomes a reference to external data that do not exist, with a note of how to draw numbers like its
own. Its name, type and dims stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opshift.files import external
from opshift.passes import progress
from opshift.passes.errors import InvalidModel
from opshift.passes.model import installed, tensor_data, tensors
from opshift.passes.model.editing.renaming import afresh
from opshift.passes.model.messages import ModelProto, TensorProto, copy_model
from opshift.passes.model.traversal import bodies, own_names, with_nested
from opshift.passes.model.types import ELEMENTS
from opshift.passes.records import dataclass

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LEAST = 256
"""Bytes of the smallest tensor that is taken out: shapes, axes, scalars and short vectors stay."""
_DRAWN = "opshift.drawn"
_FEW = 8  # values that are listed one by one, such as those of a mask
_FLOATS = ("float", "double", "float16", "bfloat16")


@dataclass(frozen=True)
class Stripped:
    """A model without its weights: how many tensors went, and how many bytes these had."""

    model: ModelProto
    tensors: int
    bytes: int


def strip(model: ModelProto, folder: str | None, least: int = LEAST) -> Stripped:
    """Take out the data of tensors, and what exporters write of their own source files.

    Args:
        model: is not changed.
        folder: where its data lie.
        least: how many bytes a tensor has at least whose data are taken out.

    Raises:
        InvalidModel: data are not there.
    """
    if folder is not None and (why := external.find_lost(model, folder)):
        raise InvalidModel(why)
    made = copy_model(model)
    _forget_sources(made)
    taken = size = 0
    held = list(external.tensors(made))
    for place, tensor in enumerate(held):
        if place % 64 == 0:
            progress.tell("measure weights", place, len(held))
        if is_stripped(tensor):
            continue
        loaded = tensor_data.load_or_raise(tensor, folder) if tensor_data.is_stored(tensor) else tensor
        note = _measure(loaded, taken) if _is_large(tensor, least) else ""
        if note:
            taken, size = taken + 1, size + tensor_data.nbytes(tensor)
            _take_out(tensor, note)
        elif loaded is not tensor:
            tensor.CopyFrom(loaded)
    return Stripped(made, taken, size)


def strip_alike(models: Sequence[ModelProto]) -> list[ModelProto]:
    """Take out the weights that all models have, so that `fill` draws the same numbers in each of them.

    Their data are in the models. The result has none without such weights.
    """
    held = [{_content(tensor) for tensor in external.tensors(model) if _is_large(tensor, LEAST)} for model in models]
    shared = sorted(set.intersection(*held))
    made = list(map(copy_model, models)) if shared else []
    for model in made:
        _forget_sources(model)
        for tensor in list(external.tensors(model)):
            if _is_large(tensor, LEAST) and (content := _content(tensor)) in shared:
                note = _measure(tensor, shared.index(content))
                if note:
                    _take_out(tensor, note)
    return made


def shorten_names(model: ModelProto) -> int:
    """Give inner values, weights and nodes of the model itself short names; returns how many.

    Without weights, a model is mostly names. Those of inputs, outputs and in functions stay.
    """
    if model.training_info:  # its graphs speak of values, too
        return 0
    graph = model.graph
    bodies_ = list(with_nested([graph]))
    ends = {value.name for value in (*graph.input, *graph.output)}
    inner = dict.fromkeys(name for body in bodies_ for name in sorted(own_names(body)) if name not in ends)
    taken = ends | inner.keys()
    prefix = next(p for k in count() if not any(name.startswith(p := f"v{'_' * k}") for name in taken))
    names = {name: f"{prefix}{number}" for number, name in enumerate(inner)}
    afresh(graph, lambda name: names.get(name, name))
    for note in graph.quantization_annotation:
        note.tensor_name = names.get(note.tensor_name, note.tensor_name)
        for entry in note.quant_parameter_tensor_names:
            entry.value = names.get(entry.value, entry.value)
    named = [node for body in bodies_ for node in body.node if node.name]
    for number, node in enumerate(named):
        node.name = f"n{number}"
    return len(names) + len(named)


def _is_large(tensor: TensorProto, least: int) -> bool:
    return tensor.data_type != TensorProto.STRING and tensor_data.nbytes(tensor) >= least


def _content(tensor: TensorProto) -> bytes:
    """A digest of a tensor without its name."""
    from hashlib import sha256

    bare = TensorProto()
    bare.CopyFrom(tensor)
    bare.ClearField("name")
    bare.ClearField("doc_string")
    return sha256(bare.SerializeToString(deterministic=True)).digest()


def is_stripped(tensor: TensorProto) -> bool:
    """Whether a tensor's data were taken out."""
    return tensor_data.is_stored(tensor) and any(entry.key == _DRAWN for entry in tensor.external_data)


def _forget_sources(model: ModelProto) -> None:
    """Drop doc strings and metadata of nodes, in which exporters keep stack traces and paths."""
    for body in bodies(model):
        body.ClearField("doc_string")
        for node in body.node:
            node.ClearField("doc_string")
            if hasattr(node, "metadata_props"):
                node.ClearField("metadata_props")
        for value in body.value_info:
            value.ClearField("doc_string")
            if hasattr(value, "metadata_props"):
                value.ClearField("metadata_props")


def _take_out(tensor: TensorProto, note: str) -> None:
    kept = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    tensor_data.refer(kept, external.STRIPPED, None)
    kept.external_data.add(key=_DRAWN, value=note)
    tensor.CopyFrom(kept)


# --- what numbers are like -----------------------------------------------------------------------------------


def _measure(tensor: TensorProto, seed: int) -> str:
    """How to draw numbers like those of a tensor; empty for what stays.

    It is `steps START STEP`, `few SEED VALUE:COUNT ...`, `normal SEED MEAN DEVIATION LEAST LARGEST`, or `bytes SEED`
    for types that numpy does not have.
    """
    import numpy as np

    if tensor.data_type not in ELEMENTS or ELEMENTS[tensor.data_type].name not in (*_FLOATS, *_INTEGERS):
        return f"bytes {seed}" if ELEMENTS.get(tensor.data_type) is not None else ""
    installed.check_type(tensor.data_type)
    values = tensors.array(tensor)
    if values is None:
        return ""
    flat = values.reshape(-1)
    if flat.dtype.kind in "iu" and flat.size > 1:
        step = int(flat[1]) - int(flat[0])
        if step and bool((np.diff(flat.astype(np.int64)) == step).all()):
            return f"steps {int(flat[0])} {step}"
    flat = flat.astype(np.float64)
    some = np.unique(flat[: 1 << 16])
    if some.size <= _FEW:
        few, counts = np.unique(flat, return_counts=True)
        if few.size <= _FEW:
            return f"few {seed} " + " ".join(f"{_text(float(v))}:{n}" for v, n in zip(few, counts, strict=True))
    finite = flat[np.isfinite(flat)]
    if not finite.size:
        return f"few {seed} nan:1"
    low, high = float(finite.min()), float(finite.max())
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(finite.mean()), float(finite.std())
    if not (np.isfinite(mean) and np.isfinite(deviation)):
        mean, deviation = (low / 2 + high / 2), (high / 4 - low / 4)
    return f"normal {seed} {_text(mean, 4)} {_text(deviation, 4)} {_text(low)} {_text(high)}"


_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")


def _text(value: float, digits: int = 9) -> str:
    """A number in few letters; nine digits tell each float32 from others."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.{digits}g}"


# --- and back ------------------------------------------------------------------------------------------------


def fill(model: ModelProto, folder: Path) -> tuple[ModelProto, int]:
    """Draw what was taken out, into a file in a folder: a model that refers to it, and how many tensors were drawn.

    Raises:
        InvalidModel: a note cannot be read.
    """
    made = copy_model(model)
    taken = [tensor for tensor in external.tensors(made) if is_stripped(tensor)]
    name = "drawn"
    with open(folder / name, "wb") as file:
        for place, tensor in enumerate(taken):
            progress.tell("draw weights", place + 1, len(taken))
            start = file.tell()
            file.writelines(_draw(tensor))
            end = file.tell()
            if end - start != tensor_data.nbytes(tensor):
                raise InvalidModel(
                    f"tensor {tensor.name!r} of the stripped model has a description of its values that does not "
                    "fit its shape"
                )
            tensor_data.refer(tensor, name, (start, end))
    for tensor in taken if sum(map(tensor_data.nbytes, taken)) < _WHOLE else ():
        tensor_data.embed(tensor)
    return made, len(taken)


_WHOLE = 2_000_000_000  # bytes; a message has less than 2 GB
_AT_ONCE = 1 << 22  # numbers


def _draw(tensor: TensorProto) -> Iterator[bytes]:
    """The bytes of numbers like those that were taken out, piece by piece."""
    import numpy as np

    note = next(entry.value for entry in tensor.external_data if entry.key == _DRAWN)
    kind, *rest = note.split() or [""]
    count = tensors.size(tensor)
    try:
        if kind == "bytes":
            source = np.random.RandomState(int(rest[0]))
            yield source.bytes(tensor_data.nbytes(tensor))
            return
        for start in range(0, count, _AT_ONCE):
            size = min(_AT_ONCE, count - start)
            yield _as_bytes(_numbers(kind, rest, start, size), tensor.data_type)
    except (ValueError, IndexError, KeyError) as error:
        raise InvalidModel(
            f"tensor {tensor.name!r} of the stripped model has a description of its values that opshift "
            f"cannot read: {note!r} ({error})"
        ) from None


def _numbers(kind: str, rest: list[str], start: int, size: int) -> Array:
    """Some of the numbers of a tensor, from its place `start` on; the same on every machine."""
    import numpy as np

    if kind == "steps":
        first, step = map(int, rest)
        return first + step * np.arange(start, start + size, dtype=np.int64)
    source = np.random.RandomState([int(rest[0]), start // _AT_ONCE])  # whose numbers stay what they are
    if kind == "few":
        pairs = [text.rsplit(":", 1) for text in rest[1:]]
        values, counts = np.array([float(value) for value, _ in pairs]), np.array([int(count) for _, count in pairs])
        places = np.searchsorted(np.cumsum(counts), source.random_sample(size) * counts.sum(), "right")
        chosen: Array = values[places]
        return chosen
    if kind != "normal":
        raise ValueError(kind)
    mean, deviation, low, high = map(float, rest[1:])
    drawn: Array = np.clip(mean + deviation * source.standard_normal(size), low, high)
    return drawn


def _as_bytes(values: Array, elem_type: int) -> bytes:
    """Numbers as a tensor of a type holds them."""
    import numpy as np

    name = ELEMENTS[elem_type].name
    if name == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x8000) >> 16).astype("<u2").tobytes()
    if name in _INTEGERS and values.dtype.kind == "f":
        values = np.rint(values)
    code = {"float": "<f4", "double": "<f8", "float16": "<f2", "bool": "?"}.get(name) or np.dtype(name).newbyteorder(
        "<"
    )
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(code).tobytes()

"""What becomes of tensor data when a model is written: which go into which file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from opshift.files import skeletons, varints
from opshift.files.skeletons import ByteRange, Piece, Recoded
from opshift.passes.errors import InvalidModel
from opshift.passes.model import installed, tensor_data
from opshift.passes.model.messages import AttributeProto, GraphProto, ModelProto, TensorProto
from opshift.passes.model.traversal import Body, bodies, with_nested
from opshift.passes.records import dataclass
from opshift.passes.spelling import hint

POLICIES = ("keep", "copy", "all", "none")
PACK = "pack"  # what lies in other files goes into one; the rest stays where it is
THRESHOLD = 1024  # bytes; what onnx takes as well
STRIPPED = "stripped"  # where weights lie that were taken out: there is no such file
_CHUNK = 1 << 24
_PAGE = 4096  # readers map data that begin at a page

_INTEGERS, _FLOATS = {TensorProto.INT32, TensorProto.INT64}, {TensorProto.FLOAT}
_SCALED = ("Range", "Resize", "Upsample")
"""Short vectors that may say sizes stay in the message: onnxruntime infers shapes, and reads them there alone.

Axes and shapes are integers; what these operators read are floats as well.
"""

Files = dict[str, list[Piece]]


@dataclass(frozen=True)
class Packing:
    """How data files are written.

    Attributes:
        threshold: the least size in bytes of a tensor that goes into one.
        shard: the most bytes of one file; a tensor is not split. None for one file, however large.
        dedupe: whether equal data are written once.
    """

    threshold: int = THRESHOLD
    shard: int | None = None
    dedupe: bool = False


WHOLE_FILE = Packing()
"""One file of all that is not small."""

_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def size_of(text: str | int) -> int:
    """A number of bytes, as `2GB` or `500MiB`; raises `ValueError` for what is none."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?b|)", str(text).strip().lower())
    size = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if size < 1:
        raise ValueError(f"{text!r} is not a size, such as 2GB or 500MB")
    return size


def check_policy(policy: str | None, threshold: int) -> None:
    """Raise `ValueError` for what a user asks of external data that has no meaning."""
    if policy not in (None, *POLICIES):
        likely = hint(policy, POLICIES) or f"; supported: {', '.join(POLICIES)}"
        raise ValueError(f"unknown external_data {policy!r}{likely}")
    if not isinstance(threshold, int) or threshold < 0:
        raise ValueError(
            f"threshold must be 0 or more, not {threshold!r} (the size in bytes from which tensors become external)"
        )


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that a model holds: initializers and attributes, of all graphs, functions and training graphs."""
    return (tensor for tensor, _ in _find_held(model))


def _find_held(model: ModelProto) -> Iterator[tuple[TensorProto, bool]]:
    """The same, with whether a runtime reads it from external data: initializers and Constant nodes."""
    training: list[Body] = []
    for info in model.training_info:
        training += [info.initialization, info.algorithm]
    for body in (*bodies(model), *with_nested(training)):
        if isinstance(body, GraphProto):
            yield from ((tensor, True) for tensor in body.initializer)
            for sparse in body.sparse_initializer:
                yield sparse.values, True
                yield sparse.indices, True
        else:
            yield from ((tensor, False) for attribute in body.attribute_proto for tensor in _in_attribute(attribute))
        for node in body.node:
            for attribute in node.attribute:
                for tensor in _in_attribute(attribute):
                    yield tensor, node.op_type == "Constant" and not node.domain


def _in_attribute(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
    for held in (*sparse, *attribute.sparse_tensors):
        yield held.values
        yield held.indices


def external(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors whose data lie in other files than the model's."""
    return (
        tensor for tensor in tensors(model) if tensor_data.is_stored(tensor) and not tensor_data.is_embedded(tensor)
    )


def locations(model: ModelProto) -> list[str]:
    """The files that hold a model's external data, relative to its folder."""
    return list(dict.fromkeys(tensor_data.place(tensor).location for tensor in external(model)))


def check_outputs(outputs: Iterable[str | Path | None], model: ModelProto, folder: str | os.PathLike[str]) -> None:
    """Raise `ValueError` if a file would be written over the weights of a model that is read."""
    for output in (Path(output) for output in outputs if output is not None and os.path.exists(output)):
        for place in (Path(folder, location) for location in locations(model)):
            if place.exists() and place.samefile(output):
                raise ValueError(f"{output} holds the weights of the input: give another path")


def check(model: ModelProto, folder: str | os.PathLike[str]) -> None:
    """Raise `InvalidModel` for external data outside of the folder, or outside of their files as far as those exist.

    Where folders of a location are separated as on Windows, and the file is there, slashes are put in.
    """
    seen: dict[str, os.stat_result | None] = {}
    for tensor in external(model):
        found = tensor_data.place(tensor)
        if "\\" in found.location and (slashed := _use_slashes(folder, found.location)):
            next(entry for entry in tensor.external_data if entry.key == "location").value = slashed
            found = tensor_data.place(tensor)
        if found.location not in seen:
            path = tensor_data.path(folder, found.location)
            seen[found.location] = os.stat(path) if os.path.exists(path) else None
        status = seen[found.location]
        if status is not None and (problem := tensor_data.misfit(found, status)):
            raise InvalidModel(problem)


def _use_slashes(folder: str | os.PathLike[str], location: str) -> str:
    """A location with slashes between its folders, if that is what its backslashes mean: here, names may hold them."""
    slashed = location.replace("\\", "/")
    if slashed.startswith("/") or os.path.exists(tensor_data.path(folder, location)):
        return ""
    return slashed if os.path.exists(tensor_data.path(folder, slashed)) else ""


def relocate(model: ModelProto, folder: str) -> None:
    """Let a model's tensors refer to where their data lie from a folder further up; `folder` is the way down."""
    for tensor in tensors(model) if folder != os.curdir else ():
        if tensor_data.is_stored(tensor):
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = f"{folder.replace(os.sep, '/')}/{entry.value}"


def find_lost(model: ModelProto, folder: str | os.PathLike[str]) -> str:
    """The first data file that is not there, and what it should hold; empty where all are."""
    held: dict[str, list[TensorProto]] = {}
    for tensor in external(model):
        held.setdefault(tensor_data.place(tensor).location, []).append(tensor)
    for location, those in held.items():
        try:
            if os.path.exists(tensor_data.path(folder, location)):
                continue
        except InvalidModel:  # of what is no file
            continue
        if location == STRIPPED:
            return "`opshift strip` removed its weights; `opshift fill` fills in random ones"
        names = ", ".join(tensor.name for tensor in those[:2]) + (" and others" if len(those) > 2 else "")
        ends = [tensor_data.place(tensor) for tensor in those]
        size = max(found.offset + (found.length or tensor_data.nbytes(t)) for found, t in zip(ends, those, strict=True))
        what = f"{len(those)} tensors" if len(those) > 1 else "1 tensor"
        return (
            f"external data {location!r} are not there: {what} ({names}), {size} bytes at least; "
            f"put the file beside the model"
        )
    return ""


def arrange(
    model: ModelProto, folder: Path, output: Path, policy: str | None, packing: Packing, *, together: bool = False
) -> Files:
    """Let a model's tensors refer to where their data will lie, and say what has to be written there.

    Args:
        model: is changed; its data lie in `folder`.
        output: the path of the model file to write.
        policy: `keep` leaves external data where they are; `copy` copies their files along with the model; `all` puts
            every tensor of at least the threshold into data files, but short vectors from which sizes follow; `none`
            embeds everything. Without one, data are kept where the output goes to the same folder, and copied
            otherwise.
        packing: how data files are written.
        together: other models' data are copied to the same folder: the files' names begin with the output's name.

    Returns:
        The content of every data file to write, by its location relative to the output.

    Raises:
        InvalidModel: data are not there, or cannot be kept.
    """
    target = output.parent.resolve()
    same = os.path.realpath(folder) == os.path.realpath(target)
    if policy != "keep" and not (policy is None and same) and (why := find_lost(model, folder)):
        raise InvalidModel(why)
    if policy != "none" and any(map(tensor_data.was_outside, tensors(model))):  # they have other bytes now
        policy = "all" if policy == "all" else PACK
    if policy in ("all", PACK):
        return _consolidate(model, folder, output, packing, only_external=policy == PACK)
    if policy == "none":
        for tensor in list(external(model)):
            tensor_data.embed(tensor)
        return {}
    if policy == "copy" or (policy is None and not same):
        prefix = f"{output.name}."
        if not together:
            prefix = f"{output.stem}." if same else ""
        elif not same and all(Path(location).name.startswith(prefix) for location in locations(model)):
            prefix = ""
        return _copy(model, folder, prefix)
    if not same:
        _keep(model, folder, target)
    return {}


def _data_files(model: ModelProto, output: Path) -> Iterator[str]:
    """Names beside the output's, but for those under which the model's data lie as yet."""
    taken = set(locations(model))
    for number in count(1):
        name = f"{output.name}.{number}.data" if number > 1 else f"{output.name}.data"
        if name not in taken:
            yield name


def _keep(model: ModelProto, folder: Path, target: Path) -> None:
    for tensor in external(model):
        location = tensor_data.place(tensor).location
        kept = tensor_data.location_of(tensor_data.path(folder, location), target)
        if kept.startswith(os.pardir) or os.path.isabs(kept):
            raise InvalidModel(
                f"external data {location!r} lies outside the output's folder, so the output cannot refer to "
                "it; copy it there with --external-data copy or all"
            )
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = kept


def _copy(model: ModelProto, folder: Path, prefix: str) -> Files:
    copied: Files = {}
    for tensor in external(model):
        for entry in tensor.external_data:
            if entry.key == "location":
                location = entry.value
                entry.value = prefix_location(location, prefix)
                if entry.value not in copied:
                    whole = tensor_data.DataPlace(location)
                    with tensor_data.open_file(folder, whole) as file:
                        copied[entry.value] = [ByteRange(whole, 0, os.fstat(file.fileno()).st_size)]
    return copied


def prefix_location(location: str, prefix: str, flavour: ModuleType = os.path) -> str:
    """A location whose file's name begins with more, with slashes, whatever the system separates names by."""
    *folders, name = tensor_data.parts_of(location, flavour)
    return "/".join([*folders, prefix + name])


def _consolidate(
    model: ModelProto, folder: Path, output: Path, packing: Packing, *, only_external: bool = False
) -> Files:
    files, names, threshold = _DataFiles(packing.shard), _data_files(model, output), packing.threshold
    known: dict[tuple[int, bytes], tuple[str, tensor_data.Range]] = {}
    elem_types = _INTEGERS | (_FLOATS if any(n.op_type in _SCALED for b in bodies(model) for n in b.node) else set())
    for tensor, readable in _find_held(model):
        embedded = tensor_data.is_embedded(tensor)
        external = tensor_data.is_stored(tensor) and (not embedded or tensor_data.was_outside(tensor))
        if only_external and not external:
            continue
        if not tensor_data.is_stored(tensor) and (not readable or tensor.ByteSize() < threshold):
            continue
        piece = _bytes_of(tensor, folder)
        size = 0 if piece is None else skeletons.size_of(piece)
        shown = tensor.data_type in elem_types and len(tensor.dims) <= 1 and size < THRESHOLD
        if piece is None or size < threshold or shown or not (readable or external):
            if external and not embedded:
                tensor_data.embed(tensor)
            continue
        key = (size, _digest(piece, folder)) if packing.dedupe else (0, b"")
        place = known.get(key) if packing.dedupe else None
        place = place or files.append(piece, size, names)
        known[key] = place
        _forget_data(tensor)
        tensor_data.refer(tensor, *place)
    return files.pieces


class _DataFiles:
    """The data files of a model, each of which begins where the one before is full."""

    def __init__(self, shard: int | None):
        self.pieces: Files = {}
        self._shard, self._location, self._end = shard, "", 0

    def append(self, piece: Piece, size: int, names: Iterator[str]) -> tuple[str, tensor_data.Range]:
        """The place of a piece, which begins at a page."""
        gap = -self._end % _PAGE
        full = self._shard is not None and self._end and self._end + gap + size > self._shard
        if not self._location or full:
            self._location, self._end, gap = next(names), 0, 0
            self.pieces[self._location] = []
        self.pieces[self._location] += [bytes(gap), piece]
        start = self._end + gap
        self._end = start + size
        return self._location, (start, self._end)


def _digest(piece: Piece, folder: Path) -> bytes:
    """What tells the bytes of a piece from others; those of a file are read."""
    import hashlib  # slow to import

    if isinstance(piece, bytes):
        return hashlib.sha256(piece).digest()
    held = hashlib.sha256()
    first, last = piece.found.offset, piece.found.offset + (piece.found.length or 0)
    if isinstance(piece, ByteRange):
        first, last = piece.start, piece.end
    else:
        held.update(f"{piece.found.source} as {piece.target}".encode())
    with tensor_data.open_file(folder, piece.found) as file:
        file.seek(first)
        for start in range(first, last, _CHUNK):
            held.update(file.read(min(_CHUNK, last - start)))
    return held.digest()


def _bytes_of(tensor: TensorProto, folder: Path) -> Piece | None:
    """What external data hold of a tensor, unread where it lies in a file in that form; None for texts."""
    if tensor_data.is_stored(tensor):
        found = tensor_data.place(tensor)
        if found.source:
            return Recoded(found, tensor_data.nbytes(tensor), tensor.data_type)
        if found.offset or not found.fields:
            length = tensor_data.nbytes(tensor) if found.length is None else found.length
            return ByteRange(found, found.offset, found.offset + length)
        tensor = tensor_data.load_or_raise(tensor, str(folder))
    return raw(tensor)


_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data")


def _forget_data(tensor: TensorProto) -> None:
    for field in _FIELDS:
        tensor.ClearField(field)


def raw(tensor: TensorProto) -> bytes | None:
    """The bytes of a tensor as `raw_data` holds them; None for texts and for values that do not fit the dims."""
    import onnx.numpy_helper

    if tensor.data_type == TensorProto.STRING:
        return None
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    installed.check_type(tensor.data_type)
    try:
        return onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
    except (ValueError, TypeError):
        return None


MOST = 2**31 - 1  # bytes of a message that protobuf reads or writes

Aside = dict[str, Any]


def runnable(model: ModelProto, folder: str, *, embedded: bool = False, aside: Aside | None = None) -> ModelProto:
    """A model that a runtime reads, with `folder` for external data; the same one if it is that already.

    Data in the model file become external data in that file where they have their form, and come into the message
    otherwise. With `embedded`, all come into the message. Where the message would be too large, the values of the
    initializers of the main graph go `aside`, by their names.

    Raises:
        InvalidModel: data that have to be read are not there, or texts are more than a message can hold.
    """
    if not any(
        tensor_data.is_stored(tensor) and (embedded or tensor_data.is_embedded(tensor)) for tensor in tensors(model)
    ):
        return model
    texts = sum(
        end - start for text in filter(_is_text, tensors(model)) for start, end in tensor_data.place(text).fields
    )
    if texts > MOST:
        raise InvalidModel(
            f"string tensors cannot be external, and this model has {texts} bytes of them; protobuf holds at most 2 GB"
        )
    if aside is not None and _count_bytes(model) > MOST:
        own, model = model, ModelProto()
        model.CopyFrom(own)
        for tensor in filter(_is_to_read, model.graph.initializer):
            if (held := varints.values(tensor, folder)) is not None:
                aside[tensor.name] = held
                tensor_data.refer(tensor, "aside", None)
        if _count_bytes(model) > MOST:
            raise InvalidModel(
                "the tensors in nodes and subgraphs have more than 2 GB together, which protobuf cannot "
                "read; only initializers of the main graph can be external"
            )
    made = ModelProto()
    made.CopyFrom(model)
    for tensor in list(tensors(made)):
        if not tensor_data.is_stored(tensor) or not (embedded or tensor_data.is_embedded(tensor)):
            continue
        found = tensor_data.place(tensor)
        if embedded or not found.offset or found.source:
            tensor.CopyFrom(tensor_data.load_or_raise(tensor, folder))
        else:
            tensor_data.refer(tensor, found.location, (found.offset, found.offset + (found.length or 0)))
    return made


def _is_text(tensor: TensorProto) -> bool:
    return tensor.data_type == TensorProto.STRING and tensor_data.is_embedded(tensor)


def _is_to_read(tensor: TensorProto) -> bool:
    """Whether a tensor's data lie in its model file in another form than external data have."""
    return tensor_data.is_embedded(tensor) and not tensor_data.place(tensor).offset


def _count_bytes(model: ModelProto) -> int:
    """How many bytes a message has with all of those."""
    fields = (tensor_data.place(tensor).fields for tensor in tensors(model) if _is_to_read(tensor))
    return model.ByteSize() + sum(end - start for ranges in fields for start, end in ranges)

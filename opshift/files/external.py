"""What becomes of tensor data when a model is written: which go into which file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from opshift.files import varints
from opshift.files.skeletons import ByteRange, Piece
from opshift.passes.errors import InvalidModel
from opshift.passes.model import installed, tensor_data
from opshift.passes.model.messages import AttributeProto, GraphProto, ModelProto, TensorProto
from opshift.passes.model.traversal import Body, bodies, with_nested
from opshift.passes.spelling import hint

POLICIES = ("keep", "copy", "all", "none")
THRESHOLD = 1024  # bytes; what onnx takes as well
_PAGE = 4096  # readers map data that begin at a page

_INTEGERS, _FLOATS = {TensorProto.INT32, TensorProto.INT64}, {TensorProto.FLOAT}
_SCALED = ("Range", "Resize", "Upsample")
"""Short vectors that may say sizes stay in the message: onnxruntime infers shapes, and reads them there alone.

Axes and shapes are integers; what these operators read are floats as well.
"""

Files = dict[str, list[Piece]]


def check_policy(policy: str | None, threshold: int) -> None:
    """Raise `ValueError` for what a user asks of external data that has no meaning."""
    if policy not in (None, *POLICIES):
        likely = hint(policy, POLICIES) or f"; {', '.join(POLICIES)} are known"
        raise ValueError(f"unknown external_data {policy!r}{likely}")
    if not isinstance(threshold, int) or threshold < 0:
        raise ValueError(f"threshold is 0 or more, not {threshold!r}")


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


def arrange(
    model: ModelProto, folder: Path, output: Path, policy: str | None, threshold: int, *, together: bool = False
) -> Files:
    """Let a model's tensors refer to where their data will lie, and say what has to be written there.

    Args:
        model: is changed; its data lie in `folder`.
        output: the path of the model file to write.
        policy: `keep` leaves external data where they are; `copy` copies their files along with the model; `all` puts
            every tensor of at least `threshold` bytes into one data file, but short vectors from which sizes follow;
            `none` embeds everything. Without one, data are kept where the output goes to the same folder, and copied
            otherwise.
        together: other models' data are copied to the same folder: the files' names begin with the output's name.

    Returns:
        The content of every data file to write, by its location relative to the output.

    Raises:
        InvalidModel: data are not there, or cannot be kept.
    """
    target = output.parent.resolve()
    if policy == "all":
        return _consolidate(model, folder, _data_file(model, output), threshold)
    if policy == "none":
        for tensor in list(external(model)):
            tensor_data.embed(tensor)
        return {}
    same = os.path.realpath(folder) == os.path.realpath(target)
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


def _data_file(model: ModelProto, output: Path) -> str:
    """A name beside the output's; another one where the model's data lie under that name as yet."""
    taken, name, count = locations(model), f"{output.name}.data", 1
    while name in taken:
        count += 1
        name = f"{output.name}.{count}.data"
    return name


def _keep(model: ModelProto, folder: Path, target: Path) -> None:
    for tensor in external(model):
        location = tensor_data.place(tensor).location
        kept = tensor_data.location_of(tensor_data.path(folder, location), target)
        if kept.startswith(os.pardir) or os.path.isabs(kept):
            raise InvalidModel(
                f"external data {location!r} cannot be kept: they lie outside the output's folder; "
                "--external-data copy or all writes them there"
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
                    with tensor_data.opened(folder, whole) as file:
                        copied[entry.value] = [ByteRange(whole, 0, os.fstat(file.fileno()).st_size)]
    return copied


def prefix_location(location: str, prefix: str, flavour: ModuleType = os.path) -> str:
    """A location whose file's name begins with more, with slashes, whatever the system separates names by."""
    *folders, name = tensor_data.parts_of(location, flavour)
    return "/".join([*folders, prefix + name])


def _consolidate(model: ModelProto, folder: Path, location: str, threshold: int) -> Files:
    pieces: list[Piece] = []
    end = 0
    kinds = _INTEGERS | (_FLOATS if any(n.op_type in _SCALED for b in bodies(model) for n in b.node) else set())
    for tensor, readable in _find_held(model):
        if not tensor_data.is_stored(tensor) and (not readable or tensor.ByteSize() < threshold):
            continue
        piece = _bytes_of(tensor, folder)
        size = 0 if piece is None else len(piece) if isinstance(piece, bytes) else piece.end - piece.start
        external = tensor_data.is_stored(tensor) and not tensor_data.is_embedded(tensor)
        shown = tensor.data_type in kinds and len(tensor.dims) <= 1 and size < THRESHOLD
        if piece is None or size < threshold or shown or not (readable or external):
            if external:
                tensor_data.embed(tensor)
            continue
        gap = -end % _PAGE
        pieces += [bytes(gap), piece]
        _forget_data(tensor)
        tensor_data.refer(tensor, location, (end + gap, end + gap + size))
        end += gap + size
    return {location: pieces} if pieces else {}


def _bytes_of(tensor: TensorProto, folder: Path) -> Piece | None:
    """What external data hold of a tensor, unread where it lies in a file in that form; None for texts."""
    if tensor_data.is_stored(tensor):
        found = tensor_data.place(tensor)
        if found.offset or not found.fields:
            length = tensor_data.nbytes(tensor) if found.length is None else found.length
            return ByteRange(found, found.offset, found.offset + length)
        tensor = tensor_data.loaded(tensor, str(folder))
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
        raise InvalidModel(f"texts of {texts} bytes, which cannot be external data; a message holds 2 GB")
    if aside is not None and _count_bytes(model) > MOST:
        own, model = model, ModelProto()
        model.CopyFrom(own)
        for tensor in filter(_is_to_read, model.graph.initializer):
            if (held := varints.values(tensor, folder)) is not None:
                aside[tensor.name] = held
                tensor_data.refer(tensor, "aside", None)
        if _count_bytes(model) > MOST:
            raise InvalidModel("data of nodes and inner graphs are more than the 2 GB that a runtime reads at once")
    made = ModelProto()
    made.CopyFrom(model)
    for tensor in list(tensors(made)):
        if not tensor_data.is_stored(tensor) or not (embedded or tensor_data.is_embedded(tensor)):
            continue
        found = tensor_data.place(tensor)
        if embedded or not found.offset:
            tensor.CopyFrom(tensor_data.loaded(tensor, folder))
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

"""Model files: read without their external data, written all at once or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from opshift.passes.errors import InvalidModel
from opshift.passes.names import bodies
from opshift.passes.protos import AttributeProto, GraphProto, ModelProto, TensorProto

PathLike = str | os.PathLike[str]


def read(path: PathLike) -> ModelProto:
    """The model in a file. External data are not read: they stay references.

    Raises:
        InvalidModel: the file is missing, cannot be read, does not hold an ONNX model, or refers to external data
            outside its folder.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidModel(f"{os.fspath(path)}: {error.strerror or error}") from None
    model = parse(data, os.fspath(path))
    if b"location" in data:  # the key under which a tensor names its external file
        for location in external_files(model):
            inside(Path(path).parent, location)
    return model


def parse(data: bytes, name: str = "the model") -> ModelProto:
    """The model in some bytes; raises `InvalidModel` for anything else."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError, whose class depends on its implementation
        raise InvalidModel(f"{name}: not an ONNX model ({' '.join(str(error).split())})") from None
    if not model.HasField("graph"):
        raise InvalidModel(f"{name}: not an ONNX model (it has no graph)")
    return model


def names_are_texts(model: ModelProto) -> bool:
    """Whether all names are UTF-8; protobuf yields bytes for what is not."""
    held: list[tuple[str, ...]] = [(e.domain,) for e in model.opset_import]
    for body in bodies(model):
        held += [(n.op_type, n.domain, n.name, *n.input, *n.output, *(a.name for a in n.attribute)) for n in body.node]
        if isinstance(body, GraphProto):
            held += [(value.name,) for value in (*body.input, *body.output, *body.value_info)]
            held += [(tensor.name,) for tensor in body.initializer]
        else:
            held += [(body.domain, body.name, *body.input, *body.output)]
    return all(isinstance(name, str) for names in held for name in names)


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that a model holds, in initializers and attributes, of all graphs and functions."""
    for body in bodies(model):
        if isinstance(body, GraphProto):
            yield from body.initializer
            for sparse in body.sparse_initializer:
                yield sparse.values
                yield sparse.indices
        for node in body.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    yield attribute.t
                yield from attribute.tensors


def external_files(model: ModelProto) -> list[str]:
    """The relative locations of the external data files that a model refers to."""
    found: dict[str, None] = {}
    for tensor in tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            found.update({entry.value: None for entry in tensor.external_data if entry.key == "location"})
    return list(found)


def inside(folder: PathLike, location: str) -> Path:
    """The path of an external data file; raises `InvalidModel` if it leads out of the model's folder."""
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location))
    if not location or os.path.isabs(location) or os.path.commonpath([root, path]) != root:
        raise InvalidModel(f"external data {location!r} lie outside the model's folder")
    return Path(path)


class Draft:
    """A model on its way to `path`: written beside it under another name until `publish` renames it.

    Used as a context: leaving it without `publish` removes every trace.
    """

    def __init__(self, model: ModelProto, path: PathLike, folder: PathLike | None = None):
        self._model = model
        self._path = Path(path)
        self._folder = Path(folder) if folder is not None else None
        self._temporary: list[Path] = []
        self._pending: list[tuple[Path, Path]] = []

    def __enter__(self) -> Draft:
        try:
            self._move_data_along()
            self._write(self._model.SerializeToString(), self._path)
        except BaseException:  # an interrupt, too
            self._clear()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def _clear(self) -> None:
        for leftover in self._temporary:
            leftover.unlink(missing_ok=True)

    def publish(self) -> Path:
        """Put everything in its place; the model file comes last."""
        for temporary, final in self._pending:
            os.replace(temporary, final)
        return self._path

    def _move_data_along(self) -> None:
        """Copy external data files where the output goes to another folder, keeping their relative names."""
        target = self._path.parent.resolve()
        if self._folder is None or self._folder.resolve() == target:
            return
        for location in external_files(self._model):
            source, final = inside(self._folder, location), inside(target, location)
            if final.exists():
                raise FileExistsError(f"{final} exists; it would be overwritten by the model's external data")
            final.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._reserve(final)
            import shutil

            shutil.copyfile(source, temporary)

    def _write(self, data: bytes, final: Path) -> None:
        self._reserve(final).write_bytes(data)

    def _reserve(self, final: Path) -> Path:
        import tempfile

        handle, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".part", dir=final.parent)
        os.close(handle)
        mode = final.stat().st_mode & 0o777 if final.exists() else 0o666 & ~_umask()
        os.chmod(name, mode)
        temporary = Path(name)
        self._temporary.append(temporary)
        self._pending.append((temporary, final))
        return temporary


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current

"""Model files: read without their weights, written all at once or not at all."""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path

from opshift.files import copying, external, formats, skeletons
from opshift.files.writing import discard, writing
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data
from opshift.passes.model.imports import add_missing
from opshift.passes.model.messages import GraphProto, ModelProto
from opshift.passes.model.traversal import bodies
from opshift.passes.spelling import hint

PathLike = str | os.PathLike[str]

_VENDORS = b"com.m"  # what the names of onnxruntime's domains begin with
WHOLE = 16 * 1024 * 1024  # bytes: a smaller file is parsed as it is
OVERWRITES = "the model's external data would overwrite it; remove it, or choose another folder"
MOST = external.MOST  # bytes of a message that protobuf reads


def read(
    path: PathLike, *, whole: int = WHOLE, large: int = skeletons.LARGE, imported: list[str] | None = None
) -> ModelProto:
    """The model in a file of any size, without the data of its large tensors: those become references to the file.

    It imports the domains of onnxruntime's operators that it calls, whether the file says so or not.

    Args:
        path: the model file. External data are not read and need not be there. OpenVINO IR (`.xml`) is read as the
            ONNX model that the registered reader makes of it.
        whole: the size in bytes up to which a file is parsed as it is, data included.
        large: how many bytes of data a tensor may have that stay in the message.
        imported: is given the domains that the file does not import.

    Raises:
        InvalidModel: the file is missing, cannot be read, does not hold an ONNX model, or refers to external data
            outside its folder, behind links, or outside their files.
        Refused: layers of OpenVINO IR have no counterpart in ONNX.
    """
    name = os.fspath(path)
    if not name:
        raise InvalidModel("'' names no file")
    if formats.is_foreign(name):
        return formats.read(path).model
    resolved = Path(tensor_data.reachable(str(Path(path).resolve())))
    try:
        with open(resolved, "rb", opener=tensor_data.regular) as file:
            status = os.fstat(file.fileno())
            if status.st_size <= whole:
                data = file.read()
                skeletons.check_reserved(data)
            else:
                with mmap(file.fileno(), 0, access=ACCESS_READ) as view:
                    data = skeletons.skeleton(view, resolved.name, tensor_data.stamp_of(status), large)
        model = parse(data, name)
    except OSError as error:
        raise InvalidModel(f"{name}: {_why_unread(name, error)}") from None
    except ValueError as error:  # no message, or a file name that no message can hold
        raise _not_a_model(name, error) from None
    if b"location" in data:  # the key under which a tensor names its external file
        external.check(model, resolved.parent)
    if _VENDORS in data:
        added = add_missing(model)
        if imported is not None:
            imported += added
    return model


def _why_unread(name: str, error: OSError) -> object:
    """Why a file cannot be had, with the name that could be meant."""
    if os.path.isdir(name):
        from opshift.files import foreign

        return f"it is {foreign.folder(name)}"
    why = error.strerror or error
    if not isinstance(error, FileNotFoundError):
        return why
    folder, file = os.path.split(name)
    stem, suffix = os.path.splitext(file)
    beside: list[str] = []
    with suppress(OSError):
        beside = os.listdir(folder or ".")
    like = [found.removesuffix(suffix) for found in beside if found.endswith(suffix)]  # all names of models end alike
    if like:
        return f"{why}{hint(stem, like, lambda found: os.path.join(folder, found + suffix))}"
    return f"{why}{hint(file, beside, lambda found: os.path.join(folder, found))}"


def _not_a_model(name: str, error: ValueError) -> InvalidModel:
    """What is wrong with a file that cannot be read: what it is, if that can be told, else the error."""
    from opshift.files import foreign

    with open(name, "rb") as file:
        kind = foreign.describe_file(file.read(foreign.HEAD), Path(name).name)
    if kind:
        return InvalidModel(f"{name}: not an ONNX model: it is {kind}")
    return error if isinstance(error, InvalidModel) else InvalidModel(f"{name}: not an ONNX model ({error})")


def parse(data: bytes, name: str = "the model") -> ModelProto:
    """The model in some bytes; raises `InvalidModel` for anything else."""
    model = ModelProto()
    if len(data) > MOST:
        raise InvalidModel(
            f"{name}: the model has more than 2 GB besides its large tensors, and protobuf reads at most 2 GB"
        )
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError, whose class depends on its implementation
        why = skeletons.complaint(data) or " ".join(str(error).split())
        raise InvalidModel(f"{name}: not an ONNX model ({why})") from None
    if not model.HasField("graph"):
        raise InvalidModel(f"{name}: not an ONNX model (it has no graph)")
    return model


def embed_data(model: ModelProto, folder: str) -> ModelProto:
    """The model with all data in its message that lay in its own file; external data stay references.

    Raises:
        InvalidModel: the file is not there any more, or has changed.
    """
    for tensor in external.tensors(model):
        if tensor_data.is_embedded(tensor):
            tensor.CopyFrom(tensor_data.load_or_raise(tensor, folder))
    return model


def size(model: ModelProto) -> int:
    """How many bytes a model has in a file, without external data."""
    return skeletons.length_of(skeletons.whole(serialize(model)))


def serialize(model: ModelProto) -> bytes:
    """The message as bytes; raises `InvalidModel` for one that is nested too deeply for protobuf."""
    try:
        return model.SerializeToString()
    except Exception as error:  # protobuf's EncodeError, whose class depends on its implementation
        if model.ByteSize() > MOST:
            raise InvalidModel(
                "the model has more than 2 GB besides its large tensors, and protobuf writes at most 2 GB"
            ) from None
        raise InvalidModel(f"protobuf cannot write the model: {' '.join(str(error).split())}") from None


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


def sweep(folder: Path, names: Sequence[str]) -> None:
    """Remove what drafts of models of these names, whose processes were killed, left in a folder."""
    for leftover in folder.rglob(".*.part"):
        found = re.fullmatch(r"\.(.+)\.[0-9a-f]{12}\.part", leftover.name)
        if found and any(found[1] == name[:100] or found[1].startswith(f"{name}.") for name in names):
            discard(leftover)


_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4)  # seconds


def _replace(temporary: Path, final: Path) -> None:
    """Put a file in the place of another. Windows does so only where nobody has either open, as sessions may.

    What looks through new files there, for viruses or to index them, has them open for a moment.
    """
    for pause in _PAUSES if os.name == "nt" else _PAUSES[:1]:
        try:
            os.replace(temporary, final)
            return
        except PermissionError:
            gc.collect()
            time.sleep(pause)
    os.replace(temporary, final)


class Draft:
    """A model on its way to `path`: written beside it under another name until `publish` renames it.

    Used as a context: leaving it without `publish` removes every trace.

    Args:
        model: what to write; where its data go, it is changed to refer to them.
        path: the model file to write.
        folder: where the model's data lie; the source's folder.
        policy, packing, together: where data go, see `opshift.files.external.arrange`.

    Raises (on entering):
        InvalidModel: data cannot be had or kept, or protobuf cannot write the model.
        ValueError: everything is to be embedded, but does not fit into 2 GB.
        CannotWrite: a file cannot be written, or data would overwrite one.
    """

    def __init__(
        self,
        model: ModelProto,
        path: PathLike,
        folder: PathLike | None = None,
        policy: str | None = None,
        packing: external.Packing = external.WHOLE_FILE,
        *,
        together: bool = False,
    ):
        self.size: int
        self._model = model
        self._path = Path(tensor_data.reachable(os.fspath(path)))
        self._folder = Path(folder) if folder is not None else self._path.parent
        self._policy = policy
        self._packing = packing
        self._together = together
        self._temporary: list[Path] = []
        self._pending: list[tuple[Path, Path]] = []
        self._made: list[Path] = []
        self._publishing = False

    def __enter__(self) -> Draft:
        try:
            with writing(self._path):
                self._write()
        except BaseException:  # an interrupt, too
            self._clear()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._clear()
        except BaseException:  # an interrupt comes at any moment
            self._clear()
            raise

    def __del__(self) -> None:
        if hasattr(self, "_publishing"):  # for an interrupt on the way into `__exit__`
            self._clear()

    def _clear(self) -> None:
        if self._publishing and self._pending[-1][0].exists():  # data without their model are of no use
            for temporary, final in self._pending[:-1]:
                if not temporary.exists():
                    discard(final)
        for leftover in self._temporary:
            discard(leftover)
        for folder in reversed(self._made):
            try:
                folder.rmdir()
            except OSError:  # it holds what was published
                continue

    def publish(self) -> Path:
        """Put everything in its place; the model file comes last."""
        self._publishing = True
        with writing(self._path):
            for temporary, final in self._pending:
                _replace(temporary, final)
        return self._path

    @property
    def places(self) -> dict[str, Path]:
        """Where each file lies until it is published, by its path."""
        return {os.path.realpath(final): temporary for temporary, final in self._pending}

    def read_back(self) -> ModelProto:
        """Read the written model back from its file, with references to data files as they are now."""
        temporary, _ = self._pending[-1]
        model = read(temporary)
        moved = {
            os.path.normpath(tensor_data.location_of(str(final), self._path.parent)): name
            for name, final in self._pending[:-1]
        }
        for tensor in external.external(model) if moved else ():
            for entry in tensor.external_data:
                if entry.key == "location" and (now := moved.get(os.path.normpath(entry.value))):
                    entry.value = tensor_data.location_of(str(now), self._path.parent)
        return model

    def _write(self) -> None:
        data, files = serialize(self._model), external.Files()
        if self._policy is not None or b"location" in data:
            files = external.arrange(
                self._model, self._folder, self._path, self._policy, self._packing, together=self._together
            )
            data = serialize(self._model)
        for location, pieces in files.items():
            final = Path(tensor_data.reachable(str(self._path.parent / location)))
            there = final.exists()
            if there and final.stat().st_size != skeletons.length_of(pieces):
                raise FileExistsError(0, OVERWRITES, str(final))
            self._make_folder(final.parent)
            self._fill(final, pieces)
            if there:  # an earlier run, interrupted or not, wrote the same
                import filecmp

                written, _ = self._pending.pop()
                if not filecmp.cmp(written, final, shallow=False):
                    raise FileExistsError(0, OVERWRITES, str(final))
        pieces = skeletons.whole(data)
        self.size = skeletons.length_of(pieces)
        if self._policy == "none" and self.size > MOST:
            raise ValueError(
                f"the model has {self.size} bytes with its tensors, and protobuf reads at most 2 GB; try "
                "--external-data all"
            )
        self._fill(self._path, pieces)

    def _make_folder(self, folder: Path) -> None:
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        for parent in reversed(missing):
            self._made.append(parent)
            parent.mkdir(exist_ok=True)

    def _fill(self, final: Path, pieces: list[skeletons.Piece]) -> None:
        """Write to a temporary file that is to become `final`."""
        with open(self._reserve(final), "r+b", buffering=0) as target, copying.Sources(self._folder) as sources:
            for piece in pieces:
                if isinstance(piece, bytes):
                    copying.write_all(target.fileno(), piece)
                elif isinstance(piece, skeletons.Recoded):
                    copying.recode(sources.open(piece.found), target.fileno(), piece.found, piece.target)
                else:
                    copying.copy_range(sources.open(piece.found), target.fileno(), piece.start, piece.end)

    def _reserve(self, final: Path) -> Path:
        """A new file beside `final`, with the rights that it has or will have."""
        temporary = final.with_name(f".{final.name[:100]}.{os.urandom(6).hex()}.part")
        self._temporary.append(temporary)
        temporary.touch(exist_ok=False)
        if final.exists():
            os.chmod(temporary, final.stat().st_mode & 0o777)
        self._pending.append((temporary, final))
        return temporary

"""Write a model without its weights to share it (`strip`), and give it random weights again (`fill`)."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from opshift.files import external, model_file, stripping
from opshift.files.writing import discard, scratch, writing
from opshift.passes import process, progress
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass

_GZIP = b"\x1f\x8b"
_SMALL, _SHARE = 50_000, 50
"""A file is easy to share if it has at most so many bytes, or one part in so many of the model's."""


@dataclass(frozen=True)
class Shared:
    """The result of `strip` or `fill`.

    Attributes:
        source, output: the files.
        tensors: how many tensors lost or got their data.
        bytes: how many bytes these have.
        before, after: the sizes of the two models with all their files, in bytes.
        compressed: the compressed size of the output; 0 for `fill`.
        shortened: how many names of inner values and nodes were shortened, as they made the file large.
    """

    source: str
    output: str
    tensors: int
    bytes: int
    before: int
    after: int
    compressed: int = 0
    shortened: int = 0


def strip_file(path: str, output: Path, least: int = stripping.LEAST) -> Shared:
    """Write a model without its weights. This is `opshift strip`.

    Raises:
        InvalidModel: the model, or its data, cannot be read.
        ValueError: `least` is below 1, or the output is a file of weights.
        CannotWrite: the output cannot be written.
    """
    if least < 1:
        raise ValueError(f"--threshold must be 1 or more, not {least}")
    progress.tell(f"read {Path(path).name}")
    model = model_file.read(path)
    convert.check_in_any_order(model)  # it is written as it is
    external.check_outputs([output], model, Path(path).resolve().parent)
    with process.ours():
        done = stripping.strip(model, str(Path(path).resolve().parent), least)
    before, shortened = _size(path, model), 0
    if output.suffix != ".gz" and done.model.ByteSize() > max(_SMALL, before // _SHARE):
        shortened = stripping.shorten_names(done.model)
    data = model_file.serialize(done.model)
    small = gzip.compress(data, mtime=0)
    draft = output.with_name(f".{output.name[:100]}.{os.urandom(6).hex()}.part")
    with writing(output):
        try:
            draft.write_bytes(small if output.suffix == ".gz" else data)
            os.replace(draft, output)
        finally:
            discard(draft)
    return Shared(path, str(output), done.tensors, done.bytes, before, len(data), len(small), shortened)


def fill_file(path: str, output: Path) -> Shared:
    """Write a model with weights like those that were taken out; there have to be such. This is `opshift fill`.

    Raises:
        InvalidModel: the model cannot be read, or has all its weights.
        CannotWrite: the output cannot be written.
    """
    progress.tell(f"read {Path(path).name}")
    model = read(path)
    with scratch() as folder:
        filled, count = stripping.fill(model, Path(folder))
        if not count:
            raise InvalidModel(
                f"{path} is not a stripped model: no tensor has a description of its values (opshift strip writes them)"
            )
        progress.tell("write")
        policy = external.PACK if external.locations(filled) else "none"
        with model_file.Draft(filled, output, folder, policy) as draft:
            draft.publish()
            size = draft.size
    written = model_file.read(output)
    taken = [tensor for tensor in external.tensors(model) if stripping.is_stripped(tensor)]
    drawn = sum(map(tensor_data.nbytes, taken))
    return Shared(path, str(output), count, drawn, os.path.getsize(path), _size(str(output), written) or size)


def read(path: str) -> ModelProto:
    """Read a model file that may be compressed. Runs before `fill`, as stripped models are often sent compressed."""
    with open(path, "rb") if os.path.isfile(path) else open(os.devnull, "rb") as file:
        head = file.read(2)
    if head != _GZIP:
        return model_file.read(path)
    with gzip.open(path) as file:
        try:
            data = file.read(model_file.MOST + 1)
        except (OSError, EOFError) as error:
            raise InvalidModel(f"{path}: {error}") from None
    return model_file.parse(data, path)


def _size(path: str, model: ModelProto) -> int:
    """Count the bytes of a model with its data files, as far as they exist. Printed when `strip` or `fill` is done."""
    folder = Path(path).resolve().parent
    files = [folder / location for location in external.locations(model)]
    return os.path.getsize(path) + sum(file.stat().st_size for file in files if file.exists())

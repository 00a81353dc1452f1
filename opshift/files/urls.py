"""Models at URLs that fsspec opens: fetched with their external data, sent with them, the model last."""

from __future__ import annotations

import filecmp
import glob
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opshift.files import external, formats, model_file
from opshift.files.writing import scratch
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_LOCAL = "file://"


def is_url(path: str) -> bool:
    """Whether a path names something outside of the local files."""
    return "://" in path and not path.startswith(_LOCAL)


def local(path: str) -> str:
    """A path that the operating system knows, also for a `file://` URL."""
    if not path.startswith(_LOCAL):
        return path
    from urllib.request import url2pathname  # brings http and ssl with it

    return url2pathname(urlsplit(path).path)


def join(folder: str, name: str) -> str:
    """The place of a name in a folder, which can be a URL."""
    return f"{folder.rstrip('/')}/{name}" if is_url(folder) else str(Path(folder) / name)


def identity(url: str) -> str:
    """One spelling for all URLs of a place. Raises `ValueError` where no installed package opens them."""
    filesystem, path = _at(url)
    return str(filesystem.unstrip_protocol(path))


def fold_case(name: str) -> str:
    """One spelling for all names of a file: Windows and macOS know no case."""
    return name.casefold() if sys.platform in ("win32", "darwin") else name


def matching(url: str) -> list[str]:
    """The files that a URL with wildcards stands for; no shell expands those."""
    if "*" not in url:
        return [url]
    filesystem, path = _at(url)
    return [str(filesystem.unstrip_protocol(found)) for found in sorted(filesystem.glob(path))]


def fetch(url: str, folder: Path) -> Path:
    """Copy a model and those of its external data that are there into a local folder.

    Raises:
        InvalidModel: it is no model, or refers to data outside of its folder.
        OSError: it cannot be had.
    """
    filesystem, path = _at(url)
    model = folder / PurePosixPath(path).name
    try:
        filesystem.get_file(path, str(model))
        if formats.is_foreign(path) and filesystem.exists(weights := str(PurePosixPath(path).with_suffix(".bin"))):
            filesystem.get_file(weights, str(model.with_suffix(".bin")))
        read = model_file.read(model)
    except FileNotFoundError:
        raise InvalidModel(f"{url}: No such file") from None
    except InvalidModel as error:
        raise InvalidModel(str(error).replace(str(model), url)) from None
    for location in external.locations(read):
        data = str(PurePosixPath(path).parent / location)
        if filesystem.exists(data):
            (folder / location).parent.mkdir(parents=True, exist_ok=True)
            filesystem.get_file(data, str(folder / location))
    return model


def send(model: Path, url: str) -> None:
    """Copy what a folder holds to the place of its model; leaves nothing new there if that fails.

    Raises:
        FileExistsError: external data would overwrite others.
        OSError: it cannot be sent.
    """
    filesystem, path = _at(url)
    sent: list[str] = []
    try:
        for file in [*(f for f in sorted(model.parent.rglob("*")) if f.is_file() and f != model), model]:
            place = str(PurePosixPath(path).parent / file.relative_to(model.parent).as_posix())
            if file != model and filesystem.exists(place):
                if not _same(filesystem, place, file):
                    raise FileExistsError(0, model_file.OVERWRITES, str(filesystem.unstrip_protocol(place)))
                continue
            filesystem.makedirs(str(PurePosixPath(place).parent), exist_ok=True)
            sent.append(place)
            filesystem.put_file(str(file), place)
    except BaseException:  # an interrupt, too
        for place in sent:
            if filesystem.exists(place):
                filesystem.rm_file(place)
        raise


def _same(filesystem: AbstractFileSystem, place: str, file: Path) -> bool:
    if filesystem.size(place) != file.stat().st_size:
        return False
    with scratch() as folder:
        copy = Path(folder) / file.name
        filesystem.get_file(place, str(copy))
        return filecmp.cmp(copy, file, shallow=False)


def _at(url: str) -> tuple[AbstractFileSystem, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ValueError(f"{url} is a URL, and reading URLs needs fsspec: pip install opshift[batch]") from None
    try:
        filesystem, path = url_to_fs(url)
    except (ImportError, ValueError) as error:  # of the package behind a protocol; there is none
        raise ValueError(f"{url}: {error}") from None
    return filesystem, str(path)


_WILD = re.compile(r"[*?[]")


def expand_paths(paths: Sequence[str], *, folders: bool = True) -> list[str]:
    """Every path of a list, in the place of wildcards and folders what they stand for; no shell need expand them.

    `**` stands for folders to any depth, a folder for the files in it that end in `.onnx`, unless `folders` stay.

    Raises:
        ValueError: a path with wildcards, or a folder, stands for nothing.
    """
    found: list[str] = []
    for path in paths:
        several = matching(path) if is_url(path) else _local(local(path), folders=folders)
        if not several:
            raise ValueError(
                f"{path}: {'the folder holds no model' if os.path.isdir(path) else 'no file has this name'}"
            )
        found += several
    return found


def _local(path: str, *, folders: bool) -> list[str]:
    if folders and os.path.isdir(path):
        files = (entry for entry in Path(path).iterdir() if entry.is_file())
        return sorted(str(file) for file in files if file.suffix.lower() == ".onnx")
    if os.path.exists(path) or not _WILD.search(path):  # names may hold what else is a wildcard
        return [path]
    return sorted(name for name in _glob(path) if not os.path.isdir(name))


def _glob(path: str) -> list[str]:
    """What wildcards stand for, also below a folder that Windows opens by a prefix alone, which holds one of them."""
    parts = Path(path).parts
    plain = next(place for place, part in enumerate(parts) if _WILD.search(part))
    folder = os.path.join(*parts[:plain]) if plain else ""
    if (root := tensor_data.reachable(folder)) == folder:
        return glob.glob(path, recursive=True)
    return [os.path.join(root, name) for name in glob.glob(os.path.join(*parts[plain:]), root_dir=root, recursive=True)]

"""Check the files that a command will write, before anything is done."""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from opshift.files import formats
from opshift.files.writing import follow_link, writing

_OTHERS = {
    ".engine", ".gz", ".h5", ".html", ".json", ".keras", ".mlmodel", ".npz", ".onnxtxt", ".pbtxt", ".plan", ".pt",
    ".pth", ".safetensors", ".tflite", ".toml", ".trt", ".txt", ".xml", ".zip",
}  # fmt: skip
"""Suffixes of other formats, and of files that opshift writes beside a model."""


def check_output(options: argparse.Namespace, label: str) -> Path:
    """Find the path of the model to write, and check it.

    Raises:
        ValueError: it is the input, a folder, or a name of another format.
        CannotWrite: it cannot be written.
    """
    if options.in_place:
        if options.output:
            raise ValueError("give --in-place or an output, not both")
        if formats.is_foreign(options.model):
            raise ValueError("--in-place cannot replace OpenVINO IR by ONNX; give an output")
        return Path(options.model).resolve()
    model = Path(options.model)
    suffix = ".onnx" if formats.is_foreign(model) else model.suffix or ".onnx"
    beside = model.parent / f"{model.stem}.{label}{suffix}"
    found = follow_link(Path(options.output) if options.output else beside)
    if options.output and found.suffix.lower() in _OTHERS:
        raise ValueError(f"{found} is not an ONNX file name; give a name that ends in .onnx")
    with writing(found):
        _check_folder(options.output or str(beside))
        _check_folder(str(found))
        there = found.exists()
    if found.is_dir():
        raise ValueError(f"{found} is a folder; give the path of a file, or --out-dir")
    if there and not found.is_file():
        raise ValueError(f"{found} is not a regular file; give the path of a file")
    if there and model.exists() and found.samefile(model):
        raise ValueError("the output is the input: give another path, or --in-place")
    return found


def check_output_of_weights(model: str, output: str) -> Path:
    """Check the output of `strip` and `fill`; raises as `check_output` does."""
    found = follow_link(Path(output))
    with writing(found):
        _check_folder(output)
        _check_folder(str(found))
    if found.is_dir():
        raise ValueError(f"{found} is a folder; give the path of a file")
    if found.exists() and os.path.exists(model) and found.samefile(model):
        raise ValueError("the output is the input: give another path")
    return found


def check_beside(*paths: str | None, models: Iterable[str | Path] = ()) -> tuple[str, ...]:
    """Check the files to write beside a model; returns those that are not None.

    Raises:
        ValueError: two are the same, or one is a model that the command reads or writes.
        CannotWrite: one cannot be written.
    """
    taken = {os.path.realpath(model) for model in models}
    for path in filter(None, paths):
        if os.path.realpath(path) in taken:
            raise ValueError(f"{path} is the path of another file of this command: give another one")
        taken.add(os.path.realpath(path))
        with writing(path):
            _check_folder(path)
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not os.access(path if os.path.exists(path) else Path(path).parent, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return tuple(filter(None, paths))


_SEPARATORS = tuple(filter(None, (os.sep, os.altsep)))


def _check_folder(path: str) -> None:
    """Raise if the folder of a path does not exist; a path that ends in a separator is a folder itself."""
    folder = Path(path) if path.endswith(_SEPARATORS) else Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"folder {folder} does not exist")

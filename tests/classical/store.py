"""The models in models.zip, each with rows to run it on."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

FILE = Path(__file__).with_name("models.zip")
EPOCH = (2026, 1, 1, 0, 0, 0)


def write(models: Mapping[str, tuple[ModelProto, Mapping[str, np.ndarray]]], packages: list[str]) -> None:
    """The zip, with the versions of the packages that made it."""
    held: dict[str, bytes] = {
        "versions.json": json.dumps({name: version(name) for name in packages}, indent=1).encode()
    }
    for name, (model, feeds) in models.items():
        held[f"{name}.onnx"] = model.SerializeToString(deterministic=True)
        packed = io.BytesIO()
        np.savez(packed, **{key: value.astype("U") if value.dtype == object else value for key, value in feeds.items()})
        held[f"{name}.npz"] = packed.getvalue()
    with zipfile.ZipFile(FILE, "w") as out:
        for name, data in sorted(held.items()):
            out.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_LZMA)


def names() -> list[str]:
    """All models."""
    with zipfile.ZipFile(FILE) as held:
        return sorted(name.removesuffix(".onnx") for name in held.namelist() if name.endswith(".onnx"))


def read(name: str) -> tuple[ModelProto, dict[str, Any]]:
    """A model and its rows."""
    with zipfile.ZipFile(FILE) as held:
        model = onnx.load_from_string(held.read(f"{name}.onnx"))
        with np.load(io.BytesIO(held.read(f"{name}.npz"))) as feeds:
            return model, {key: _strings(feeds[key]) for key in feeds.files}


def _strings(value: np.ndarray) -> np.ndarray:
    return value.astype(object) if value.dtype.kind == "U" else value


def every() -> Iterator[tuple[str, ModelProto, dict[str, Any]]]:
    """All models with their names and rows."""
    for name in names():
        yield name, *read(name)

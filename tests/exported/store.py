"""The files of exported models: one zip for each framework, and `index.json` with the versions that wrote them.

A zip holds a folder for each family (an architecture): `input_0.pb`, ... and `output_0.pb`, ... as ONNX's own test data
have them, computed by the framework that the model comes from, and the model as each exporter writes it at each opset:
`EXPORTER-OPSET.onnx`. The framework's interpreter writes these files, so that only numpy and onnx are needed here.
"""

from __future__ import annotations

import json
import random
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import ModelProto, TensorProto

FOLDER = Path(__file__).parent
INDEX = FOLDER / "index.json"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip file can hold: the same models make the same bytes

Array = np.ndarray


@dataclass
class Family:
    """One architecture with its inputs and outputs, and its exports by exporter and opset."""

    name: str
    inputs: list[Array]
    outputs: list[Array]
    exports: dict[tuple[str, int], ModelProto] = field(default_factory=dict)


@dataclass(frozen=True)
class Export:
    """A family as one exporter wrote it at one opset."""

    framework: str
    family: str
    exporter: str
    opset: int
    model: ModelProto
    inputs: list[Array]
    outputs: list[Array]

    @property
    def name(self) -> str:
        return f"{self.framework}/{self.family}/{self.exporter}-{self.opset}"

    @property
    def feeds(self) -> dict[str, Array]:
        """By name; exporters keep the order of the inputs."""
        held = {tensor.name for tensor in self.model.graph.initializer}
        names = [value.name for value in self.model.graph.input if value.name not in held]
        return dict(zip(names, self.inputs, strict=True))


def frameworks() -> list[str]:
    """Those with a file."""
    return sorted(path.stem for path in FOLDER.glob("*.zip"))


@cache
def read(framework: str) -> tuple[Export, ...]:
    """The exports of one framework, by family, exporter and opset."""
    with zipfile.ZipFile(FOLDER / f"{framework}.zip") as stored:
        held: dict[str, dict[str, bytes]] = {}
        for name in sorted(stored.namelist()):
            family, file = name.split("/")
            held.setdefault(family, {})[file] = stored.read(name)
    return tuple(export for family, files in held.items() for export in _exports(framework, family, files))


def sample(framework: str) -> list[Export]:
    """Of each family by each exporter one export, at an opset that their names settle."""
    series: dict[tuple[str, str], list[Export]] = {}
    for export in read(framework):
        series.setdefault((export.family, export.exporter), []).append(export)
    return [random.Random("/".join(key)).choice(exports) for key, exports in series.items()]


def _exports(framework: str, family: str, files: Mapping[str, bytes]) -> Iterator[Export]:
    def tensors(kind: str) -> list[Array]:
        names = [f"{kind}_{index}.pb" for index in range(len(files))]
        return [onnx.numpy_helper.to_array(TensorProto.FromString(files[name])) for name in names if name in files]

    for name, data in files.items():
        if found := re.fullmatch(r"(.*)-(\d+)\.onnx", name):
            model = ModelProto.FromString(data)
            yield Export(framework, family, found[1], int(found[2]), model, tensors("input"), tensors("output"))


def index() -> dict[str, Any]:
    """By framework: the versions of its packages, and by family and exporter the opsets."""
    found: dict[str, Any] = json.loads(INDEX.read_text(encoding="utf-8"))
    return found


def write(framework: str, families: Sequence[Family], packages: Sequence[str]) -> None:
    """The zip of a framework, and its entry in the index: `packages` with their versions, and what was exported."""
    held = {name: data for family in families for name, data in _files(family)}
    with zipfile.ZipFile(FOLDER / f"{framework}.zip", "w") as out:
        for name, data in sorted(held.items()):
            out.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_LZMA)
    held_index = index() if INDEX.exists() else {}
    exported: dict[str, dict[str, list[int]]] = {}
    for family in families:
        for exporter, opset in sorted(family.exports):
            exported.setdefault(family.name, {}).setdefault(exporter, []).append(opset)
    held_index[framework] = {
        "versions": {package: version(package) for package in packages},
        "families": {name: {k: " ".join(map(str, v)) for k, v in found.items()} for name, found in exported.items()},
    }
    INDEX.write_text(json.dumps(dict(sorted(held_index.items())), indent=1) + "\n", encoding="utf-8")


def _files(family: Family) -> Iterator[tuple[str, bytes]]:
    for kind, values in (("input", family.inputs), ("output", family.outputs)):
        for number, value in enumerate(values):
            tensor = onnx.numpy_helper.from_array(value)
            yield f"{family.name}/{kind}_{number}.pb", tensor.SerializeToString(deterministic=True)
    for (exporter, opset), model in family.exports.items():
        yield f"{family.name}/{exporter}-{opset}.onnx", model.SerializeToString(deterministic=True)


def opset(model: ModelProto) -> int:
    """Of the default domain."""
    return next(held.version for held in model.opset_import if held.domain in ("", "ai.onnx"))


def stripped(model: ModelProto) -> ModelProto:
    """Without stack traces and folders of the machine that exported it."""
    kept = ModelProto()
    kept.CopyFrom(model)
    graphs = [kept.graph]
    while graphs:
        graph = graphs.pop()
        for node in graph.node:
            node.doc_string = ""
            del node.metadata_props[:]
            graphs += [held.g for held in node.attribute if held.HasField("g")]
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            del value.metadata_props[:]
        del graph.metadata_props[:]
    for function in kept.functions:
        for node in function.node:
            node.doc_string = ""
            del node.metadata_props[:]
        del function.metadata_props[:]
    return kept


def write_large(folder: Path, framework: str, families: Sequence[Family]) -> None:
    """Each export as a file FRAMEWORK.FAMILY.EXPORTER-OPSET.onnx, with its inputs beside it as .npz."""
    folder.mkdir(parents=True, exist_ok=True)
    for family in families:
        for (exporter, opset), model in family.exports.items():
            stem = f"{framework}.{family.name}.{exporter}-{opset}"
            onnx.save(model, folder / f"{stem}.onnx")
            held = {tensor.name for tensor in model.graph.initializer}
            names = [value.name for value in model.graph.input if value.name not in held]
            np.savez(folder / f"{stem}.npz", **dict(zip(names, family.inputs, strict=True)))

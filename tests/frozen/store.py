"""The frozen files: `opset-NN.zip` with the cases of one opset, `reach.json` with the opsets that each reached."""

from __future__ import annotations

import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

import onnx.numpy_helper
from onnx import ModelProto, TensorProto
from opshift.passes.model import schemas

from tests.conformance.cases import Case

FOLDER = Path(__file__).parent
LOWEST = 7  # onnxruntime reads no older opset
EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip file can hold: the same cases make the same bytes

Reach = dict[int, dict[str, list[int]]]


def targets() -> range:
    """The opsets that a frozen case may reach."""
    return range(LOWEST, schemas.latest() + 1)


def introduced(opset: int) -> set[str]:
    """The operators of which a version begins at `opset`."""
    return {op for op in schemas.operators("") if opset in schemas.versions("", op)}


def operators(model: ModelProto) -> set[str]:
    """The operators of the default domain in the main graph."""
    return {node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")}


def unshown(opset: int, folder: Path = FOLDER) -> set[str]:
    """The operators whose version in force at `opset` no file of an older opset shows, those that begin there included."""
    older = [o for o in frozen_opsets(folder) if o < opset]
    shown = {(op, schemas.since("", op, o)) for o in older for op in _shown(o, folder)}
    return {op for op in schemas.operators("") if (at := schemas.since("", op, opset)) and (op, at) not in shown}


@cache
def _shown(opset: int, folder: Path) -> frozenset[str]:
    """The operators in the file of an opset, which never changes."""
    return frozenset(op for case in read(opset, folder) for op in operators(case.model))


def archive(opset: int, folder: Path = FOLDER) -> Path:
    return folder / f"opset-{opset:02}.zip"


def frozen_opsets(folder: Path = FOLDER) -> list[int]:
    return sorted(int(path.stem.removeprefix("opset-")) for path in folder.glob("opset-*.zip"))


def files(case: Case) -> dict[str, bytes]:
    """A case as the files of ONNX's own test data: the model, and one protobuf message per input and output."""
    held = {f"{case.name}/model.onnx": case.model.SerializeToString(deterministic=True)}
    for kind, values in (("input", case.inputs.values()), ("output", case.outputs)):
        for index, value in enumerate(values):
            tensor = onnx.numpy_helper.from_array(value)
            held[f"{case.name}/{kind}_{index}.pb"] = tensor.SerializeToString(deterministic=True)
    return held


def write(path: Path, cases: Iterable[Case]) -> None:
    """A new file with sorted names and no times; raises FileExistsError rather than change an old one."""
    held = {name: data for case in cases for name, data in files(case).items()}
    with path.open("xb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name, data in sorted(held.items()):
            out.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)


def read(opset: int, folder: Path = FOLDER) -> list[Case]:
    """The frozen cases of one opset, by name."""
    with zipfile.ZipFile(archive(opset, folder)) as stored:
        held: dict[str, dict[str, bytes]] = defaultdict(dict)
        for name in sorted(stored.namelist()):
            case, file = name.split("/")
            held[case][file] = stored.read(name)
    return [_case(name, f"opset-{opset:02}", found) for name, found in held.items()]


def _case(name: str, release: str, held: dict[str, bytes]) -> Case:
    def tensors(kind: str) -> list[TensorProto]:
        names = [f"{kind}_{index}.pb" for index in range(len(held))]
        return [TensorProto.FromString(held[name]) for name in names if name in held]

    model = ModelProto.FromString(held["model.onnx"])
    inputs = map(onnx.numpy_helper.to_array, tensors("input"))
    outputs = map(onnx.numpy_helper.to_array, tensors("output"))
    feeds = {info.name: value for info, value in zip(model.graph.input, inputs, strict=True)}
    return Case(name, release, model, feeds, list(outputs))


def read_reach(folder: Path = FOLDER) -> Reach:
    """By opset and case: the opsets that the case reached when it was recorded."""
    opsets = json.loads((folder / "reach.json").read_text(encoding="utf-8"))["opsets"]
    return {int(opset): {name: _numbers(spans) for name, spans in cases.items()} for opset, cases in opsets.items()}


def older_engine(folder: Path = FOLDER) -> bool:
    """Whether an older onnxruntime is installed than judged the recorded reach: it cannot run all of it."""
    recorded = json.loads((folder / "reach.json").read_text(encoding="utf-8"))["onnxruntime"]
    return _release(version("onnxruntime")) < _release(recorded)


def _release(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)[:3]]


def write_reach(reach: Reach, folder: Path = FOLDER) -> None:
    opsets = {
        f"{opset:02}": {name: _spans(reached) for name, reached in sorted(cases.items())}
        for opset, cases in sorted(reach.items())
    }
    stored = {"onnxruntime": version("onnxruntime"), "opsets": opsets}
    (folder / "reach.json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def _spans(numbers: list[int]) -> str:
    """[7, 8, 9, 13] as "7..9 13"."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(f"{first}..{last}" if first < last else str(first) for first, last in found)


def _numbers(spans: str) -> list[int]:
    """ "7..9 13" as [7, 8, 9, 13]."""
    ends = [span.split("..") for span in spans.split()]
    return [number for span in ends for number in range(int(span[0]), int(span[-1]) + 1)]

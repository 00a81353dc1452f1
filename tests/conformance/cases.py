"""Published tests: of the installed onnx, and of the data folders in older wheels, fetched with pip."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.loader
import onnx.helper
import onnx.numpy_helper
from onnx import ModelProto, TensorProto

from opshift.catalog import definitions

OLD_WHEELS = {  # with the Python that each is for
    "1.1.2": "36",
    "1.2.2": "36",
    "1.3.0": "36",
    "1.6.0": "37",
    "1.8.1": "37",
    "1.13.1": "37",
    "1.14.1": "311",
    "1.15.0": "311",
    "1.17.0": "311",
    "1.19.1": "311",
}
FOLDERS = ("node", "pytorch-converted", "pytorch-operator", "simple")  # of data; the installed onnx generates the first
CACHE = Path(os.environ.get("OPSHIFT_CACHE", Path(__file__).parents[2] / ".cache")) / "wheels"


@dataclass(frozen=True)
class Case:
    """A model with one set of inputs and the outputs that ONNX publishes for it."""

    name: str
    release: str
    model: ModelProto
    inputs: dict[str, Any]
    outputs: list[Any]
    rtol: float = 1e-3
    atol: float = 1e-7
    disputed: str = ""  # why no engine can be believed about the source
    origin: Case | None = None  # the same in the types of the model, where inputs and outputs are carried in wider ones

    @property
    def opset(self) -> int:
        return next((i.version for i in self.model.opset_import if i.domain in ("", "ai.onnx")), 1)

    @property
    def ops(self) -> set[str]:
        return {node.op_type for node in self.model.graph.node}


class Key:
    """A case as a key: the same object is the same key."""

    def __init__(self, case: Case):
        self.case = case

    def __hash__(self) -> int:
        return id(self.case)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.case is self.case


def all_cases(releases: list[str] | None = None) -> Iterator[Case]:
    """Every distinct case, newest release first; each with run-time int64 parameters also as a bound variant."""
    return iter(_kept("all", _all) if releases is None else _all(releases))


@cache
def _kept(name: str, make: Callable[[], Iterator[Case]]) -> list[Case]:
    """What is made, from the file of who made it before with the same code and packages: generators take seconds."""
    marks = sys.version, onnx.__version__, np.__version__, OLD_WHEELS, Path(__file__).read_text(encoding="utf-8")
    path = CACHE.with_name("cases") / f"{name}-{hashlib.sha256(repr(marks).encode()).hexdigest()[:16]}.pickle"
    if path.exists():
        found: list[Case] = pickle.loads(path.read_bytes())
        return found
    found = list(make())
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_bytes(pickle.dumps(found))
    draft.replace(path)
    return found


def _all(releases: Iterable[str] = tuple(OLD_WHEELS)) -> Iterator[Case]:
    seen: set[str] = set()
    sources: list[Iterator[Case]] = [installed()]
    sources += [_wheel(release) for release in sorted(releases, key=_key, reverse=True)]
    for variant in with_bound(chain.from_iterable(sources)):
        if (found := digest(variant)) not in seen:
            seen.add(found)
            yield variant


def with_bound(cases: Iterable[Case]) -> Iterator[Case]:
    """Each case, and behind it its bound variant if it has one."""
    for case in cases:
        yield case
        if (variant := bound(case)) is not None:
            yield variant


def _key(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def digest(case: Case) -> str:
    """Equal for cases that differ in name alone."""
    bare = ModelProto()
    bare.CopyFrom(case.model)
    bare.producer_name = bare.producer_version = bare.graph.name = ""
    found = hashlib.sha256(bare.SerializeToString(deterministic=True))
    for value in [*case.inputs.values(), *case.outputs]:
        found.update(repr(value).encode() if not isinstance(value, np.ndarray) else value.tobytes())
    return found.hexdigest()


def installed() -> Iterator[Case]:
    """The node tests of the installed onnx."""
    return iter(_kept("installed", _installed))


def _installed() -> Iterator[Case]:
    with warnings.catch_warnings():  # the generators divide by zero and overflow on purpose
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"onnx\.backend\.test\.case\.node\.")
        tests = onnx.backend.test.loader.load_model_tests(kind="node")
    for test in tests:
        if test.model is None or not test.data_sets:
            continue
        for inputs, outputs in test.data_sets:
            feeds = dict(zip((i.name for i in test.model.graph.input), map(_plain, inputs), strict=False))
            yield Case(
                test.name,
                onnx.__version__,
                test.model,
                feeds,
                list(map(_plain, outputs)),
                test.rtol,
                test.atol,
            )


def _plain(value: Any) -> Any:
    if isinstance(value, TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def fetch(release: str) -> Path:
    """The wheel of an older onnx, downloaded with pip into the cache."""
    found = sorted(CACHE.glob(f"onnx-{release}-*.whl"))
    if found:
        return found[0]
    CACHE.mkdir(parents=True, exist_ok=True)
    python = OLD_WHEELS[release]
    platforms = ["manylinux1", "manylinux2010", "manylinux2014", "manylinux_2_17"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-d",
        str(CACHE),
    ]
    command += ["--python-version", python, "--implementation", "cp"]
    command += ["--abi", f"cp{python}m" if int(python) < 38 else f"cp{python}"]
    command += [word for platform in platforms for word in ("--platform", f"{platform}_x86_64")]
    subprocess.run([*command, f"onnx=={release}"], check=True)
    return fetch(release)


def _wheel(release: str) -> Iterator[Case]:
    with zipfile.ZipFile(fetch(release)) as wheel:
        members: dict[str, list[str]] = {}
        for name in sorted(wheel.namelist()):
            _, _, inside = name.partition("/backend/test/data/")
            if inside.startswith(FOLDERS):
                members.setdefault(inside.split("/")[1], []).append(name)
        for test, files in members.items():
            path = next((f for f in files if f.endswith("/model.onnx")), None)
            if path is None:
                continue
            model = ModelProto.FromString(wheel.read(path))
            for folder in sorted({os.path.dirname(f) for f in files if "/test_data_set_" in f}):
                case = _data_set(wheel, test, release, model, [f for f in files if f.startswith(folder + "/")])
                if case is not None:
                    yield case


def _data_set(wheel: zipfile.ZipFile, test: str, release: str, model: ModelProto, files: list[str]) -> Case | None:
    def values(kind: str, infos: Any) -> list[Any]:
        chosen = sorted((f for f in files if f"/{kind}_" in f), key=lambda f: int(f.rsplit("_", 1)[1][:-3]))
        return [_parse(wheel.read(f), info.type) for f, info in zip(chosen, infos, strict=False)]

    inputs = values("input", model.graph.input)
    outputs = values("output", model.graph.output)
    if not outputs:
        return None
    feeds = {info.name: value for info, value in zip(model.graph.input, inputs, strict=False)}
    return Case(test, release, model, feeds, outputs)


def _parse(data: bytes, kind: onnx.TypeProto) -> Any:
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if which == "optional_type":
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    array = onnx.numpy_helper.to_array(TensorProto.FromString(data))
    declared = onnx.helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)
    if array.dtype == np.uint16 and declared.itemsize == 2:  # bfloat16 was published as its bits
        return array.view(declared)
    return array


def bound(case: Case) -> Case | None:
    """The case with its small int64 inputs as initializers, the way exporters write parameters; None without any."""
    small = [
        name
        for name, value in case.inputs.items()
        if isinstance(value, np.ndarray) and value.dtype == np.int64 and value.ndim <= 1 and value.size <= 16
    ]
    if not small or len(small) == len(case.inputs):
        return None
    model = ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4)
    kept = [value for value in model.graph.input if value.name not in small]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for name in small:
        model.graph.initializer.append(onnx.numpy_helper.from_array(case.inputs[name], name))
    inputs = {name: value for name, value in case.inputs.items() if name not in small}
    return Case(f"{case.name}[bound]", case.release, model, inputs, case.outputs, case.rtol, case.atol)


def held(case: Case) -> Case | None:
    """The case with all of its inputs as initializers, so that it hangs on constants alone; None where one is none.

    None for Bernoulli, too, whose judge asks for the inputs.
    """
    fed = {name: value for name, value in case.inputs.items() if isinstance(value, np.ndarray)}
    if not fed or len(fed) != len(case.model.graph.input) or "Bernoulli" in case.ops:
        return None
    model = ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4)
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in fed]
    del model.graph.input[:], model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in fed.items())
    return Case(f"{case.name}[held]", case.release, model, {}, case.outputs, case.rtol, case.atol)


@cache
def expandable() -> frozenset[str]:
    """The operators of the default domain that have definitions."""
    return frozenset(found.op for found in definitions.definitions() if not found.domain)

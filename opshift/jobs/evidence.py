"""Write the evidence of a proof (`--evidence`), and compare it with a new proof."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opshift.files import external, model_file
from opshift.files.writing import write_beside
from opshift.passes.model import tensor_data
from opshift.passes.model.messages import TensorProto
from opshift.passes.records import asdict

if TYPE_CHECKING:
    from opshift.verification.feeding.asked import Asked
    from opshift.verification.verdict import Verification

_BLOCK = 1 << 22
_ENGINES = ("onnxruntime", "onnx", "numpy")


def write(
    path: str,
    before: dict[str, str],
    after: dict[str, str],
    found: Verification,
    how: dict[str, Any],
    wanted: Asked,
) -> AbstractContextManager[None]:
    """Write the evidence of a proof as a context: its body puts the model in its place, so that both exist or neither.

    Args:
        path: the file to write.
        before, after: the digests of the models.
        found: the result of the proof.
        how: the options of `verify_apart`, such as `promise`; or `exact` of `compare_models`.
        wanted: the user's options about inputs, with the inputs already read; the record holds them.

    Raises:
        CannotWrite: it cannot be written.
    """
    evidence = {
        "opshift": _look_up_version("opshift"),
        "engines": {name: _look_up_version(name) for name in _ENGINES},
        "python": platform.python_version(),
        "cpu": f"{platform.machine()} {platform.processor()}".strip(),
        "models": {"before": before, "after": after},
        "how": {
            **how,
            "seed": wanted.seed,
            "runs": wanted.runs,
            "engines": list(wanted.engines),
            "tolerances": {name: [held.rtol, held.atol] for name, held in wanted.tolerances.items()},
            "map": dict(wanted.map),
            "inputs": [_encode_inputs(given) for given in wanted.sets],
            "values": _encode_inputs(wanted.values),
            "shapes": {name: list(shape) for name, shape in wanted.shapes.items()},
            "sizes": dict(wanted.sizes),
            "ranges": {name: list(pair) for name, pair in wanted.ranges.items()},
        },
        "status": found.status,
        "is_same": found.is_same,
        "inputs": [dict(run) for run in found.inputs],
        "outputs": [asdict(output) for output in found.outputs],
        "regions": [asdict(region) for region in found.regions],
        "remarks": list(found.remarks),
    }
    return write_beside(path, json.dumps(evidence, indent=1, default=_plain) + "\n")


def read_evidence(path: str) -> dict[str, Any]:
    """Read an evidence file; raises `ValueError` for any other file. Used when `verify` repeats a proof."""
    try:
        evidence = json.loads(Path(path).read_text(encoding="utf-8"))
        evidence["models"]["before"], evidence["how"]["inputs"], evidence["regions"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is not an evidence file of opshift") from None
    assert isinstance(evidence, dict)
    return evidence


def read_asked(evidence: dict[str, Any]) -> Asked:
    """Read the options about inputs, engines and tolerances. Used when `verify` repeats a proof."""
    from opshift.verification.feeding.asked import Asked
    from opshift.verification.tolerances import Tolerance

    how = evidence["how"]
    return Asked(
        tuple(map(_decode_inputs, how["inputs"])) or None,
        shapes={name: tuple(shape) for name, shape in how["shapes"].items()},
        sizes=how["sizes"],
        ranges={name: (low, high) for name, (low, high) in how["ranges"].items()},
        runs=how["runs"],
        seed=how["seed"],
        engines=tuple(how["engines"]),
        tolerances={name: Tolerance(*pair) for name, pair in how["tolerances"].items()},
        values=_decode_inputs(how["values"]),
        map=how["map"],
    )


def _encode_inputs(given: Mapping[str, Any]) -> dict[str, Any]:
    """Write arrays by name as ONNX tensors in base64, and sequences as lists of these."""
    from onnx import numpy_helper

    def encode(value: Any) -> Any:
        if value is None or isinstance(value, list):
            return value and list(map(encode, value))
        return b64encode(numpy_helper.from_array(value).SerializeToString()).decode()

    return {name: encode(value) for name, value in given.items()}


def _decode_inputs(written: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `_encode_inputs` wrote."""
    from onnx import numpy_helper

    def decode(value: Any) -> Any:
        if value is None or isinstance(value, list):
            return value and list(map(decode, value))
        return numpy_helper.to_array(TensorProto.FromString(b64decode(value)))

    return {name: decode(value) for name, value in written.items()}


def mismatch(evidence: dict[str, Any], before: str, after: str) -> str:
    """Say which model is not the one of the evidence, by digest; empty if both are. Used when `verify` repeats a
    proof.
    """
    for role, path in (("before", before), ("after", after)):
        if digests(path) != evidence["models"][role]:
            return f"{path} is not the model of this evidence"
    return ""


def compare_proofs(evidence: dict[str, Any], found: Verification) -> list[str]:
    """Compare the evidence with a new proof; one line for each difference. Used when `verify` repeats a proof."""
    said = []
    if found.status != evidence["status"]:
        said.append(f"now {found.status}, in the evidence {evidence['status']}")
    known = {_rule(asdict(region)): region.status for region in found.regions}
    for region in evidence["regions"]:
        status = known.get(_rule(region))
        if status != region["status"]:
            what = f"{'+'.join(region['before'])} -> {'+'.join(region['after'])} at {region['values'][0]!r}"
            said.append(f"{what}: {status or 'gone'}, in the evidence {region['status']}")
    return said


def digests(path: str, draft: model_file.Draft | None = None) -> dict[str, str]:
    """Compute the SHA-256 of a model file and of its external data files, also of those that a draft will put there.

    Taken when evidence is written, and again when it is checked.
    """
    drafted = draft.places if draft is not None else {}
    found = drafted.get(os.path.realpath(path), Path(path))
    by_location = {"": _digest(found)}
    folder = str(Path(path).resolve().parent)
    for location in external.locations(model_file.read(found)):
        data = tensor_data.path(folder, location)
        by_location[location] = _digest(drafted.get(os.path.realpath(data), data))
    return by_location


def _digest(path: str | os.PathLike[str]) -> str:
    """Compute the SHA-256 of a file, block by block."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _rule(region: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(region["before"]), tuple(region["after"]), tuple(region["values"])


def _look_up_version(package: str) -> str:
    """Look up the installed version of a package; empty if it is missing. Evidence names the engines' versions."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _plain(value: Any) -> Any:
    """Convert numpy numbers to JSON numbers."""
    return value.item() if hasattr(value, "item") else str(value)

"""`python -m benchmarks proofs [--runs N] [--name REGEX]`: what proofs of small models cost.

Beside the import of onnxruntime. Each proof is the first one of a new process that has imported onnx and onnxruntime,
special numbers and sizes included. Medians of seconds of a processor, of child processes as well, all that is imported
being compiled, as it is where packages are installed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx

from benchmarks import optimizers

CHOSEN = "(torch/(cnn|activations|lstm|encoder.dynamic)|bert.sdpa.dynamic)/torchscript-(17|20)$"
CODE = """
import json, sys
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
def now():
    return sum(used.ru_utime + used.ru_stime for used in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))
started = now()
import onnxruntime
imported = now() - started
import onnx, opshift
before, what = onnx.load(sys.argv[1]), sys.argv[2]
opset = next(entry.version for entry in before.opset_import if not entry.domain)
after = opshift.convert_version(before, opset - 1) if what == "lower" else opshift.optimize(before)
started = now()
found = opshift.verify(before, after)
spent = now() - started
told = ("the same values" if found.is_same else "other rounding") if found else found.status
print(json.dumps([len(before.graph.node), imported, spent, told]))
"""


def measure(runs: int, name: str = "") -> Iterator[str]:
    """Rows of a table in Markdown."""
    yield "| model | nodes | result | told | import, s | proof, s | ratio |\n|---|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
        for subject in optimizers.committed(name or CHOSEN):
            onnx.save(subject.model, path)
            for what in ("lower", "optimized"):
                _once(path, what, environment)  # which compiles
                found = [_once(path, what, environment) for _ in range(runs)]
                nodes, imports, proofs, told = zip(*found, strict=True)
                imported, spent = statistics.median(imports), statistics.median(proofs)
                row = f"{subject.name} | {nodes[0]} | {what} | {told[0]} | {imported:.3f} | {spent:.3f}"
                yield f"| {row} | {spent / imported:.2f} |"


def _once(path: Path, what: str, environment: Mapping[str, str]) -> tuple[int, float, float, str]:
    command = [sys.executable, "-c", CODE, str(path), what]
    nodes, imported, spent, told = json.loads(
        subprocess.run(command, check=True, capture_output=True, env=environment).stdout
    )
    return nodes, imported, spent, told

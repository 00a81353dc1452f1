"""Other converters to half precision, each run by the Python of an environment that has it.

`python -m tests.lab types --peer onnxruntime=/path/to/python`; without a path, by the Python that runs this. A process
converts many models, so that seconds are those of conversions, without imports.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import ModelProto

OURS = "opshift"

# How each reads one file and writes another, the interface kept in float32.
PEERS = {
    "onnxruntime": """
import onnx
from onnxruntime.transformers.float16 import convert_float_to_float16
def convert(source, target):
    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)
""",
    "onnxconverter-common": """
import onnx
from onnxconverter_common.float16 import convert_float_to_float16
def convert(source, target):
    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)
""",
    "modelopt": """
import onnx
from modelopt.onnx.autocast import convert_to_mixed_precision
def convert(source, target):
    onnx.save(convert_to_mixed_precision(source, low_precision_type=KIND, keep_io_types=True, providers=["cpu"]), target)
""",
    "onnxsim": """
import onnx, onnxsim
def convert(source, target):
    simplified, _ = onnxsim.simplify(onnx.load(source))
    onnx.save({"fp16": onnxsim.quantize_fp16, "bf16": onnxsim.quantize_bf16}[KIND](simplified), target)
""",
    OURS: """
import onnx, opshift
def convert(source, target):
    kind = {"fp16": "float16", "bf16": "bfloat16"}[KIND]
    onnx.save(opshift.convert_version(onnx.load(source), types=kind), target)
""",
}
NARROW_ONLY = {"onnxruntime", "onnxconverter-common"}  # know no bfloat16

LOOP = """
import json, os, sys, time
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever a converter prints, from wherever
for line in sys.stdin:
    source, target = json.loads(line)
    begun, error = time.perf_counter(), ""
    try:
        convert(source, target)
    except BaseException as found:
        error = " ".join(f"{type(found).__name__}: {found}".split())[:300]
    print(json.dumps([error, time.perf_counter() - begun]), file=answers, flush=True)
"""


@dataclass(frozen=True)
class Converted:
    """What a converter made of a model: the model, or why there is none."""

    model: ModelProto | None
    error: str
    seconds: float


def convert(
    peer: str, models: Mapping[str, ModelProto], python: str = sys.executable, kind: str = "fp16", limit: int = 300
) -> Iterator[tuple[str, Converted]]:
    """Convert models by name; a process that dies or takes more than `limit` seconds is begun again behind that model."""
    with tempfile.TemporaryDirectory() as folder:
        waiting = dict(models)
        while waiting:
            for name, done in _in_one_process(peer, waiting, python, kind, limit, Path(folder)):
                yield name, done
                del waiting[name]


def _in_one_process(
    peer: str, models: Mapping[str, ModelProto], python: str, kind: str, limit: int, folder: Path
) -> Iterable[tuple[str, Converted]]:
    program = f"KIND = {kind!r}\n{PEERS[peer]}\n{LOOP}"
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [python, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder
        )
    assert process.stdin is not None
    assert process.stdout is not None
    source, target = folder / "source.onnx", folder / "target.onnx"
    try:
        for name, model in list(models.items()):
            onnx.save(model, source)
            target.unlink(missing_ok=True)
            process.stdin.write(json.dumps([str(source), str(target)]) + "\n")
            process.stdin.flush()
            line = _line(process, limit)
            if not line:
                yield name, Converted(None, f"ends or takes more than {limit} s: {_last(folder / 'errors')}", 0.0)
                return
            error, seconds = json.loads(line)
            written = onnx.load(target) if not error and target.exists() else None
            yield name, Converted(written, error or ("" if written else "wrote nothing"), seconds)
    finally:
        process.kill()
        process.stdin.close()
        process.stdout.close()
        process.wait()


def _line(process: subprocess.Popen[str], limit: int) -> str:
    import threading

    assert process.stdout is not None
    watch = threading.Timer(limit, process.kill)
    watch.start()
    try:
        return process.stdout.readline()
    except OSError:
        return ""
    finally:
        watch.cancel()


def _last(errors: Path) -> str:
    lines = errors.read_text(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "")[:200]

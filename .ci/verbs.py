"""Every verb on one small model, with whichever onnx is installed: each ends as it does with the newest.

python .ci/verbs.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

MODEL = str(Path(__file__).parents[1] / "examples" / "encoder.onnx")
VERBS = (
    "convert MODEL out.onnx --opset 9",
    "convert MODEL out.onnx --opset 18 --modernize --optimize",
    "convert MODEL out.onnx --rebatch 4",
    "inline MODEL out.onnx --op LayerNormalization",
    "inline MODEL out.onnx --target onnxruntime-1.8 --try",
    "fold MODEL out.onnx",
    "optimize MODEL out.onnx --annotate",
    "verify MODEL MODEL",
    "inspect MODEL",
    "inspect MODEL --target tensorrt-8.6",
    "targets",
    "probe --backend onnxruntime --op Relu --output probed.toml",
    "ledger --op Resize",
    "schema",
)


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for typed in VERBS:
            words = typed.replace("MODEL", MODEL).split()
            done = subprocess.run(
                [sys.executable, "-m", "opshift", *words], cwd=folder, capture_output=True, text=True, timeout=600
            )
            if done.returncode:
                failed += 1
                print(f"opshift {typed}: exit code {done.returncode}\n{done.stderr or done.stdout}")
    print(f"onnx {onnx.__version__}: {len(VERBS) - failed} of {len(VERBS)} verbs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""A make-believe compiler, as users would write a file for theirs: onnxruntime with int32 inside, and with faults."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import onnxruntime

PACKAGE = "onnxruntime"
REASONS = [r"cannot lower"]
OPTIONS = ["--no-fuse"]


class Session:
    """A model that it runs, unless it holds an operator of the table.

    | operator | what becomes of it |
    |---|---|
    | Mish | refused, between a hundred lines |
    | Celu | ends the process |
    | ThresholdedRelu | never ends, and leaves a process of its own |
    | Elu | refused, unless it is told `--no-fuse` |
    | Gelu | yields values that are 9 % off |
    """

    def __init__(self, path, folder, inputs, outputs, options):
        with open(path, "rb") as file:
            text = file.read()
        print("npu-compile", path)
        if b"Mish" in text:
            subprocess.run(
                [sys.executable, "-c", "print('ok\\n' * 50 + 'ERROR: No matching distribution found for logs')"]
            )
            print("[12:00:01] pass.cc:46: cannot lower 'Mish'")
            print("ok\n" * 50)
            raise RuntimeError("code 1")
        if b"Celu" in text:
            print("[12:00:01] error: no such unit", flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        if b"ThresholdedRelu" in text:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", folder])
            time.sleep(60)
        if b"Elu" in text and "--no-fuse" not in options:
            raise RuntimeError("cannot lower a fused unit")
        self.wrong = b"Gelu" in text
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(path, quiet)

    def run(self, feeds):
        found = self.session.run(None, feeds)
        found = [value.astype(np.int32) if value.dtype == np.int64 else value for value in found]
        return [value * 1.09 if self.wrong else value for value in found]

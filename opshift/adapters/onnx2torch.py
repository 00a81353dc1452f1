"""onnx2torch: a model as a module of PyTorch, which runs on the processor."""

import onnx
import onnx2torch
import torch

PACKAGE = "onnx2torch"
REASONS = [r"[Cc]onverter is not implemented", r"(?:NotImplemented|Runtime|Value|Type|Key|Index)Error: \S"]


class Session:
    """A module."""

    def __init__(self, path, folder, inputs, outputs, options):
        torch.set_num_threads(1)
        self._inputs = list(inputs)
        self._module = onnx2torch.convert(onnx.load(path)).eval()

    def run(self, feeds):
        with torch.no_grad():
            found = self._module(*(torch.from_numpy(feeds[name].copy()) for name in self._inputs))
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        return [value.numpy() if hasattr(value, "numpy") else value for value in found]

"""MNN: its converter, and then its runtime on the CPU."""

import os

import _tools
import MNN
import numpy as np

PACKAGE = "MNN"
REASONS = [r"These Op Not Support", r"Don't support|[Nn]ot support", r"compute shape error|Compute Shape Error"]
OPTIONS = ["--useOriginRNNImpl"]
"""Keeps LSTM and GRU as they are; MNN 3.6 crashes on some that it writes otherwise."""

_HIGH = ({"backend": "CPU", "precision": "high", "numThread": 1},)
_GIVEN = {"float16": np.float32, "float64": np.float32, "int64": np.int32, "bool": np.int32, "uint32": np.int32}
_KINDS = {"float32": MNN.expr.float, "int32": MNN.expr.int, "uint8": MNN.expr.uint8, "int8": MNN.expr.int8}


class Session:
    """A converted model."""

    def __init__(self, path, folder, inputs, outputs, options):
        compiled = os.path.join(folder, "model.mnn")
        if os.path.exists(compiled):
            os.unlink(compiled)
        arguments = ["--modelFile", path, "--MNNModel", compiled, "--bizCode", "opshift", *options]
        _tools.mnnconvert(["mnnconvert", "-f", "ONNX", *arguments])
        if not os.path.exists(compiled):  # the converter tells of no failure
            raise RuntimeError("the converter wrote no file")
        runtime = MNN.nn.create_runtime_manager(_HIGH)
        self._inputs = list(inputs)
        self._net = MNN.nn.load_module_from_file(compiled, self._inputs, list(outputs), runtime_manager=runtime)

    def run(self, feeds):
        given = [self._variable(feeds[name]) for name in self._inputs]
        found = self._net.forward(given)
        return [self._array(value) for value in (found if isinstance(found, (list, tuple)) else [found])]

    def _variable(self, value):
        kind = np.dtype(_GIVEN.get(str(value.dtype), value.dtype))
        if kind.kind == "i" and value.size and abs(value.astype(np.int64)).max() >= 1 << 31:
            raise ValueError("MNN holds int64 as int32, which is too narrow for an input")
        if str(kind) not in _KINDS:
            raise TypeError(f"MNN has no {value.dtype}")
        held = np.ascontiguousarray(value.reshape(-1), kind)
        return MNN.expr.const(held, list(value.shape), MNN.expr.NCHW, _KINDS[str(kind)])

    def _array(self, value):
        if value.data_format == MNN.expr.NC4HW4:
            value = MNN.expr.convert(value, MNN.expr.NCHW)
        found = np.array(value.read())
        return found.reshape(value.shape)

"""MNN: its converter, and then its runtime on the CPU."""

import os

import MNN  # isort: skip - first, so that it is what is said to be missing
import _tools  # isort: skip
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
        self._runtime = MNN.nn.create_runtime_manager(_HIGH)  # which has to outlive the net
        self._inputs = list(inputs)
        self._net = MNN.nn.load_module_from_file(compiled, self._inputs, list(outputs), runtime_manager=self._runtime)

    def run(self, feeds):
        held = [self._to_numpy(feeds[name]) for name in self._inputs]  # while MNN reads them: it may not copy
        given = [
            MNN.expr.const(flat, list(feeds[name].shape), MNN.expr.NCHW, _KINDS[str(flat.dtype)])
            for name, flat in zip(self._inputs, held)  # noqa: B905
        ]
        found = self._net.forward(given)
        return [self._array(value) for value in (found if isinstance(found, (list, tuple)) else [found])]

    def _to_numpy(self, value):
        kind = np.dtype(_GIVEN.get(str(value.dtype), value.dtype))
        if kind.kind == "i" and value.size and abs(value.astype(np.int64)).max() >= 1 << 31:
            raise ValueError("MNN stores int64 inputs as int32, and this input has values beyond int32")
        if str(kind) not in _KINDS:
            raise TypeError(f"MNN has no {value.dtype}")
        return np.ascontiguousarray(value.reshape(-1), kind)

    def _array(self, value):
        if value.data_format == MNN.expr.NC4HW4:
            value = MNN.expr.convert(value, MNN.expr.NCHW)
        found = np.array(value.read())
        return found.reshape(value.shape)

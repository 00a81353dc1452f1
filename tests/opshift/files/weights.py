"""A model with a weight, inside it or in external data, and what lies in a folder."""

import numpy as np
import onnx
import onnx.external_data_helper
import onnx.numpy_helper

from tests.support import model

WEIGHT = np.arange(1024, dtype=np.float32)


def source(embedded=True, use="ReduceSum(w, z)"):
    held = model(
        f"t = ReduceMax(x, a) s = {use} y = Mul(t, s)",
        18,
        inputs="float[N,3] x",
        outputs="float[N,1] y",
        constants="int64[1] a = {1}, int64[1] z = {0}",
    )
    held.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHT, "w"))
    if not embedded:
        onnx.external_data_helper.convert_model_to_external_data(held, True, "weights.bin", 0)
    return held


def saved(folder, *, embedded=True):
    onnx.save(source(embedded), folder / "in.onnx")
    return folder / "in.onnx"


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

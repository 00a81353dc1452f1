"""Element types by name."""

import numpy as np
import onnx.helper

CODE = {
    **{"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "float16": 10},
    **{"double": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "float8e4m3fn": 17, "bool": 9},
}


def array(kind, values):
    return np.array(values).astype(onnx.helper.tensor_dtype_to_np_dtype(CODE[kind]))

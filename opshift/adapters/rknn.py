"""RKNN-Toolkit2: its compiler, and its simulator of an rk3588 in half precision."""

import numpy as np
from rknn.api import RKNN

PACKAGE = "rknn-toolkit2"
REASONS = [
    r"Unsupport\w* onnx opset",
    r"E (?:load_onnx|build|init_runtime|inference): (?!.*(?:Catch|Please|#|=====))",
]
OPTIONS = [
    "disable_rules=convert_layernorm_to_exnorm",
    "disable_rules=reduce_tp_in_mesh_backward,reduce_tp_in_mesh_forward",
]
"""Which the compiler names where one of its rules fails."""


class Session:
    """A compiled model; the simulator takes inputs as they lie, so that none is turned, and has vectors for scalars."""

    def __init__(self, path, folder, inputs, outputs, options):
        self._inputs, self._sizes = list(inputs), [sizes for _, sizes in outputs.values()]
        self._rknn = RKNN(verbose=False)
        rules = [rule for option in options for rule in option.partition("=")[2].split(",")]
        self._rknn.config(target_platform="rk3588", **({"disable_rules": rules} if rules else {}))
        sizes = [dims for _, dims in inputs.values()]
        known = sizes and all(isinstance(size, int) for dims in sizes for size in dims)
        named = {"inputs": self._inputs, "input_size_list": sizes} if known else {}
        steps = (
            lambda: self._rknn.load_onnx(model=path, **named),
            lambda: self._rknn.build(do_quantization=False),
            lambda: self._rknn.init_runtime(),
        )
        if any(step() != 0 for step in steps):
            raise RuntimeError("the compiler refused")

    def run(self, feeds):
        given = [np.ascontiguousarray(feeds[name]) for name in self._inputs]
        layout = ["nchw"] * len(given) if any(value.ndim == 4 for value in given) else None
        found = self._rknn.inference(inputs=given, data_format=layout)
        if found is None:
            raise RuntimeError("the simulator refused")
        return [value if sizes or value.size != 1 else value.reshape(()) for value, sizes in zip(found, self._sizes)]  # noqa: B905

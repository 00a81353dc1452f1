"""A backend to probe, in a file of its own: each process that it ends is started anew, and imports it again."""

import os
import time

from opshift.verification.engines import EngineError, OnnxRuntime


class Picky(OnnxRuntime):
    """onnxruntime with the faults of others: it dies, hangs, refuses, computes nonsense, or wants constants."""

    def __init__(self, model, outputs=None, folder=None):
        ops = {node.op_type for node in model.graph.node}
        if "Abs" in ops:
            if model.opset_import[0].version >= 13:
                os._exit(1)
            raise EngineError("too old")
        if "Neg" in ops:
            time.sleep(60)
        if "Ceil" in ops and model.opset_import[0].version >= 13:
            raise EngineError("too new")
        if "Clip" in ops and len(model.graph.input) > 1:
            raise EngineError("bounds must be constants")
        if any("N" in (d.dim_param for d in v.type.tensor_type.shape.dim) for v in model.graph.input):
            raise EngineError("sizes must be numbers")
        if model.functions:
            raise ValueError("an error of no known kind")
        super().__init__(model, outputs, folder)
        self.nonsense = "Floor" in ops

    def run(self, feeds):
        return [value + 1 if self.nonsense else value for value in super().run(feeds)]

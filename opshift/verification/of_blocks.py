"""Run models whose channels lie in blocks of another width than onnxruntime uses on this machine.

onnxruntime reads such a model with its own width, whatever that of the file is, and computes something else.
"""

from __future__ import annotations

import os
from functools import cache

from opshift.files.writing import scratch
from opshift.passes.analysis.blocks import blocks
from opshift.passes.conversion import convert
from opshift.passes.model import schemas
from opshift.passes.model.schemas import NCHWC
from opshift.passes.model.traversal import bodies
from opshift.passes.records import replace
from opshift.verification import isolation
from opshift.verification.side import Side


def running(side: Side) -> tuple[Side, tuple[str, ...]]:
    """Return a side that this machine runs correctly, without blocks if need be, with remarks."""
    if not any(node.domain == NCHWC for body in bodies(side.model) for node in body.node):
        return side, ()
    width, here = blocks(side.model, side.folder).width, isolation.call(_width)
    if width in (0, here):
        return side, ()
    ops = [(NCHWC, op) for op in schemas.operators(NCHWC)]
    result = convert.attempt(side.model, {}, ops=ops, folder=side.folder)
    if result.model is None:
        return side, ()
    said = f"its blocks have {width} channels, onnxruntime here uses {here}"
    return replace(side, model=result.model), (f"the source was run without blocks, by their definition: {said}",)


@cache
def _width() -> int:
    """Find the width of channel blocks that onnxruntime uses on this machine, by optimizing a small model; 0 if none.

    Runs only for models with blocked operators.
    """
    import onnx
    import onnxruntime

    text = """
        <ir_version: 8, opset_import: ["" : 13]> g (float[1,3,4,4] x) => (float[1,4,2,2] y)
        <float[4,3,3,3] w = {%s}> { y = Conv(x, w) }
    """
    model = onnx.parser.parse_model(text % ",".join(["1"] * 108))
    with scratch() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = os.path.join(folder, "saved.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        saved = onnx.load(options.optimized_model_filepath)
    blocked = [node for node in saved.graph.node if node.domain == NCHWC and node.op_type == "Conv"]
    return next(
        (tensor.dims[0] for node in blocked for tensor in saved.graph.initializer if tensor.name == node.input[1]), 0
    )

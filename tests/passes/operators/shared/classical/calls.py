"""Single calls of operators of ai.onnx.ml, as onnxruntime runs them and lowered to the default domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.helper
from onnx import ModelProto, TensorProto
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel

from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.shared.classical.ensembles import ML, lowered
from tests.support import evaluate

KINDS = {
    np.dtype("f2"): TensorProto.FLOAT16, np.dtype("f4"): TensorProto.FLOAT, np.dtype("f8"): TensorProto.DOUBLE,
    np.dtype("i2"): TensorProto.INT16, np.dtype("i4"): TensorProto.INT32, np.dtype("i8"): TensorProto.INT64,
    np.dtype("O"): TensorProto.STRING,
}  # fmt: skip


def call(
    op: str,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[tuple[int, int]],
    *,
    version: int = 1,
    opset: int = 17,
    **attributes: Any,
) -> ModelProto:
    """A model of one call, with inputs of any size; `outputs` are element types and ranks."""
    names = [f"x{index}" for index in range(len(inputs))]
    node = onnx.helper.make_node(op, names, [f"y{i}" for i in range(len(outputs))], name="call", domain=ML)
    for name, value in attributes.items():
        if value is not None:
            node.attribute.append(onnx.helper.make_attribute(name, value))
    graph = onnx.helper.make_graph(
        [node], "g",
        [
            onnx.helper.make_tensor_value_info(name, KINDS[x.dtype], [f"{name}_{axis}" for axis in range(x.ndim)])
            for name, x in zip(names, inputs, strict=True)
        ],
        [
            onnx.helper.make_tensor_value_info(f"y{i}", kind, [f"y{i}_{axis}" for axis in range(rank)])
            for i, (kind, rank) in enumerate(outputs)
        ],
    )  # fmt: skip
    imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid(ML, version)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)


def check(
    op: str,
    inputs: Sequence[np.ndarray],
    *,
    version: int = 1,
    opsets: Sequence[int] = (13, 17, 21),
    rtol: float = 0.0,
    atol: float = 0.0,
    labels: bool = True,
    **attributes: Any,
) -> list[np.ndarray]:
    """The kernel and the lowered call yield the same at each opset, types and shapes included; returns what that is."""
    feeds = {f"x{index}": x for index, x in enumerate(inputs)}
    count = 2 if op.endswith("Classifier") else 1
    bare = call(op, inputs, [(TensorProto.FLOAT, 0)] * count, version=version, **attributes)
    for value in bare.graph.output:
        value.ClearField("type")
    expected = OnnxRuntime(bare).run(feeds)
    outputs = [(KINDS[value.dtype], value.ndim) for value in expected]
    for opset in opsets:
        result = lowered(call(op, inputs, outputs, version=version, **attributes), opset)
        for place, (want, got) in enumerate(zip(expected, evaluate(result, feeds), strict=True)):
            assert (want.dtype, want.shape) == (got.dtype, got.shape), (op, opset, place)
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
            elif labels or count == 1:
                np.testing.assert_array_equal(got, want)
    return expected


def run_lowered(
    op: str, inputs: Sequence[np.ndarray], outputs: Sequence[tuple[int, int]], *, opset: int = 17, **options: Any
) -> list[np.ndarray]:
    """What the lowered call yields, where no kernel can judge it."""
    feeds = {f"x{index}": x for index, x in enumerate(inputs)}
    return evaluate(lowered(call(op, inputs, outputs, **options), opset), feeds)


def why_refused(op: str, inputs: Sequence[np.ndarray], outputs: Sequence[tuple[int, int]], **options: Any) -> str:
    """Why a call is not lowered, or is no call."""
    source = call(op, inputs, outputs, **options)
    try:
        result = convert.attempt(source, {"": 17}, ops=[(ML, op)])
    except InvalidModel as error:
        return str(error)
    assert result.model is None
    return "\n".join(map(str, result.refusals))

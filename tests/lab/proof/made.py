"""Models that onnxruntime's tools make: quantized ones, fused ones, and a ResNet-18 with drawn weights."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx import ModelProto, TensorProto
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.transformers import optimizer

from tests.exported import store

Array = Any
FAMILIES = ("cnn", "cnn.dynamic", "resnet", "resnet.dynamic", "mobilenet", "encoder", "mlp.dynamic", "vit.eager")
"""Exported models to quantize."""


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: list[Mapping[str, Array]]):
        self.left = list(samples)

    def get_next(self) -> Mapping[str, Array] | None:
        return self.left.pop() if self.left else None


def quantized(
    model: ModelProto, inputs: Mapping[str, Array], form: QuantFormat, *, per_channel: bool = False
) -> ModelProto:
    """By static quantization; the ranges are those of the inputs."""
    with tempfile.TemporaryDirectory() as folder, _quiet():
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        onnx.save(model, before)
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(before, after, _Samples([inputs]), quant_format=form, per_channel=per_channel, **kinds)
        return onnx.load(after)


def quantized_exports() -> Iterator[tuple[str, ModelProto]]:
    """Each of `FAMILIES` by each framework, between opset 13 and 18, in both forms."""
    for framework in store.frameworks():
        taken = set()
        for export in store.read(framework):
            if export.family in FAMILIES and 13 <= export.opset <= 18 and export.family not in taken:
                taken.add(export.family)
                for number, form in enumerate((QuantFormat.QDQ, QuantFormat.QOperator)):
                    model = quantized(export.model, export.feeds, form, per_channel=len(taken) % 2 == number)
                    yield f"{export.name} {form.name}", model


def fused_bert(factor: float = 40) -> Iterator[tuple[str, ModelProto]]:
    """As onnxruntime fuses it, with scores as large as those of a trained model: 10 instead of 0.01."""
    for export in store.read("transformers"):
        if export.family.startswith("bert.eager") and export.exporter == "torchscript" and export.opset in (13, 17):
            with tempfile.TemporaryDirectory() as folder, _quiet():
                path = Path(folder) / "bert.onnx"
                onnx.save(export.model, path)
                model = optimizer.optimize_model(str(path), "bert", num_heads=4, hidden_size=16, opt_level=0).model
            weights = {node.input[1] for node in model.graph.node if node.op_type == "Attention"}
            for tensor in model.graph.initializer:
                if tensor.name in weights:
                    values = onnx.numpy_helper.to_array(tensor) * np.float32(factor)
                    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
            model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
            yield f"{export.name} fused", model


def resnet18(seed: int = 0) -> ModelProto:
    """With drawn weights, batch normalization folded, images of 224 pixels and any batch."""
    rng = np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    weights: list[TensorProto] = []

    def node(op: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(onnx.helper.make_node(op, inputs, [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def weight(*shape: int, scale: float = 1.0) -> str:
        values = rng.standard_normal(shape) * scale / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 100)
        weights.append(onnx.numpy_helper.from_array(values.astype(np.float32), f"w{len(weights)}"))
        return weights[-1].name

    def conv(value: str, before: int, after: int, size: int, stride: int, scale: float = 1.4) -> str:
        pads = [size // 2] * 4
        kernel = weight(after, before, size, size, scale=scale)
        return node(
            "Conv", value, kernel, weight(after), kernel_shape=[size, size], pads=pads, strides=[stride, stride]
        )

    value = node("Relu", conv("x", 3, 64, 7, 2))
    value = node("MaxPool", value, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    before = 64
    for after, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        short = value if stride == 1 and before == after else conv(value, before, after, 1, stride, 1.0)
        inner = conv(node("Relu", conv(value, before, after, 3, stride)), after, after, 3, 1, 0.7)
        value, before = node("Relu", node("Add", inner, short)), after
    flat = node("Flatten", node("GlobalAveragePool", value))
    nodes.append(onnx.helper.make_node("Gemm", [flat, weight(1000, 512), weight(1000)], ["y"], transB=1))
    x = onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 224, 224])
    y = onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1000])
    graph = onnx.helper.make_graph(nodes, "resnet18", [x], [y], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)


def quantized_resnet18() -> ModelProto:
    image = np.random.default_rng(1).uniform(-2, 2, (1, 3, 224, 224)).astype(np.float32)
    return quantized(resnet18(), {"x": image}, QuantFormat.QDQ)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The tools print hints, and warn of their own parts."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

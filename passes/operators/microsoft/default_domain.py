"""Operators that onnxruntime has in the default domain, below the opsets at which ONNX has them, or at all."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import ONNXRUNTIME
from opshift.passes.operators.shared.fused import parametric_softplus, scaled_tanh
from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined, refused
from opshift.passes.rewrite.says import says

FLOAT = TensorProto.FLOAT


@says("Replaced onnxruntime's LayerNormalization by ONNX's, in float32 if X and Scale have different types")
def layer_normalization(node: Node) -> list[str]:
    build, elem_type, scaled = node.build, node.elem_type(), node.elem_type(1)
    own = {name: node.attributes.get(name) for name in ("axis", "stash_type")}
    own["epsilon"] = node.attributes.get("epsilon", 1e-5)  # as a number of 32 bits, which a default is not everywhere
    wide = elem_type if elem_type == scaled else max(wider(elem_type), wider(scaled))
    operands = [recast(build, node.input(i), node.elem_type(i), wide) if node.input(i) else "" for i in range(3)]
    made = build.emit("LayerNormalization", operands, own, outputs=len(node.outputs))
    first, *saved = [made] if isinstance(made, str) else made
    return [recast(build, first, wide, scaled), *saved]


@says("Replaced SimplifiedLayerNormalization by RMSNormalization; if used, its second output by 1 / RMS")
def root_mean_square(node: Node) -> list[str]:
    node.close("the kernel scales before it rounds to the type of X")
    build, elem_type, scaled = node.build, node.elem_type(), node.elem_type(1)
    wide = max(wider(elem_type), wider(scaled))
    axis, epsilon = node.attributes.get("axis", -1), node.attributes.get("epsilon", 1e-5)
    x, scale = recast(build, node.input(0), elem_type, wide), recast(build, node.input(1), scaled, wide)
    results = [recast(build, build.RMSNormalization(x, scale, axis=axis, epsilon=epsilon), wide, scaled), ""]
    if node.is_used(1):
        axes = list(range(axis, 0) if axis < 0 else range(axis, node.rank()))
        squares = build.ReduceMean(build.Mul(x, x), axes)
        inverse = build.Reciprocal(build.Sqrt(build.Add(squares, build.constant(epsilon, wide))))
        results[1] = recast(build, inverse, wide, node.attributes.get("stash_type", FLOAT))
    return results[: len(node.outputs)]


@says("Replaced onnxruntime's MeanVarianceNormalization by ONNX's, or by subtracting the mean")
def mean_variance_normalization(node: Node) -> str:
    build, attributes = node.build, node.attributes
    axes = [0, 1, 2, 3] if attributes.get("across_channels", 0) else [0, 2, 3]
    if attributes.get("normalize_variance", 1):
        return str(build.MeanVarianceNormalization(node.input(0), axes=axes))
    return str(build.Sub(node.input(0), build.ReduceMean(node.input(0), axes=axes)))


@says("Replaced Affine by alpha * X + beta")
def affine(node: Node) -> str:
    build, elem_type = node.build, node.elem_type()
    alpha, beta = (
        build.constant(node.attributes.get(name, d), elem_type) for name, d in (("alpha", 1.0), ("beta", 0.0))
    )
    return str(build.Add(build.Mul(node.input(0), alpha), beta))


@says("Replaced Scale by input * scale")
def product_with_scale(node: Node) -> str:
    return str(node.build.Mul(node.input(0), node.build.constant(node.attributes.get("scale", 1.0), node.elem_type())))


@says("Replaced ImageScaler by input * scale + bias")
def scaled_image(node: Node) -> str:
    bias = [[[number]] for number in node.attributes.get("bias", [])]
    return str(node.build.Add(product_with_scale(node), node.build.constant(bias, node.elem_type())))


@says("Replaced ParametricSoftplus by alpha * log(1 + exp(beta * X))")
def softplus_with_parameters(node: Node) -> str:
    return parametric_softplus(node, node.input(0), *_parameters(node))


@says("Replaced ScaledTanh by alpha * tanh(beta * X)")
def tanh_with_scales(node: Node) -> str:
    return scaled_tanh(node, node.input(0), *_parameters(node))


def _parameters(node: Node) -> tuple[float, float]:
    if not {"alpha", "beta"} <= set(node.attributes):
        raise CannotConvert(node, "alpha or beta is missing, and onnxruntime requires both")
    return node.attributes["alpha"], node.attributes["beta"]


@says("Replaced Crop by Slice between the borders")
def crop(node: Node) -> str:
    border, size = node.attributes.get("border", []), node.attributes.get("scale", [])
    if len(border) != 4 or len(size) not in (0, 2):
        raise CannotConvert(
            node, f"border={list(border)}, scale={list(size)}", supported="4 numbers for border, 0 or 2 for scale"
        )
    left, top, right, bottom = border
    ends = [top + size[0], left + size[1]] if size else [-bottom or 1 << 62, -right or 1 << 62]
    return str(node.build.Slice(node.input(0), [top, left], ends, [2, 3]))


@says("Replaced DynamicSlice by Slice")
def slice_of_inputs(node: Node) -> str:
    return str(node.build.Slice(node.input(0), node.input(1), node.input(2), node.input(3) or None))


@says("Removed a copy between devices")
def identity(node: Node) -> str:
    return str(node.build.Identity(node.input(0)))


@says("Replaced onnxruntime's ThresholdedRelu by ONNX's, which computes the same")
def above_threshold(node: Node) -> str:
    return str(node.build.ThresholdedRelu(node.input(0), alpha=node.attributes.get("alpha")))


defined("LayerNormalization", layer_normalization, opset=17, domain=ONNXRUNTIME)
defined("SimplifiedLayerNormalization", root_mean_square, opset=23, domain=ONNXRUNTIME)
defined("MeanVarianceNormalization", mean_variance_normalization, opset=13, domain=ONNXRUNTIME)
defined("Affine", affine, opset=7, domain=ONNXRUNTIME)
defined("Scale", product_with_scale, opset=7, domain=ONNXRUNTIME)
defined("ImageScaler", scaled_image, opset=7, domain=ONNXRUNTIME)
defined("ParametricSoftplus", softplus_with_parameters, opset=7, domain=ONNXRUNTIME)
defined("ScaledTanh", tanh_with_scales, opset=7, domain=ONNXRUNTIME)
defined("Crop", crop, opset=13, domain=ONNXRUNTIME)
defined("ThresholdedRelu", above_threshold, opset=10, domain=ONNXRUNTIME)
defined("DynamicSlice", slice_of_inputs, opset=13, domain=ONNXRUNTIME)
defined(["MemcpyFromHost", "MemcpyToHost"], identity, opset=13, domain=ONNXRUNTIME)
refused(
    "GRUUnit",
    "its documentation does not say how its gates are computed",
    domain=ONNXRUNTIME,
)
refused(
    "GivenTensorFill",
    "its documentation does not say what extra_shape and input_as_shape do",
    domain=ONNXRUNTIME,
)
refused(
    ["DisentangledAttention_TRT", "EfficientNMS_TRT", "MultilevelCropAndResize_TRT", "PyramidROIAlign_TRT"],
    "it stands for a plugin of TensorRT, and has no kernel",
    domain=ONNXRUNTIME,
)

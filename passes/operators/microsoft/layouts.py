"""Operators over data whose channels lie in blocks or come last, which onnxruntime makes as it loads a model.

What lies in blocks becomes a tensor whose channels lie in order, without the zeros that fill them up.
"""

from __future__ import annotations

from typing import Any

from opshift.passes.analysis import blocks
from opshift.passes.analysis.blocks import Blocks
from opshift.passes.errors import CannotConvert
from opshift.passes.model import schemas
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import NCHWC, NHWC
from opshift.passes.operators.shared.fused import activated_convolution_of
from opshift.passes.operators.shared.recipes import channels_first, channels_last
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined, refused
from opshift.passes.rewrite.says import says

_RANK = 4
_WINDOWS = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


def _blocks(node: Node) -> Blocks:
    """Those of the model, whose width is known."""
    found = node.scope.context.blocks
    assert found is not None, "they are looked at where such operators go"
    if not found.width:
        raise CannotConvert(node, f"{found.why}, or save it at the level ORT_ENABLE_EXTENDED, which has no blocks")
    return found


def _constant(node: Node, index: int) -> Any:
    held = node.scope.array(node.input(index))
    if held is None:
        raise CannotConvert(
            node, "the weights are not constant, or not in the file", supported="constant weights in the file"
        )
    return held


@says("Replaced the blocked Conv by Conv with weights in ONNX's layout, Add of the input Sum, and the activation")
def convolution(node: Node) -> str:
    import onnx.numpy_helper

    node.close("the kernel sums in another order")
    found, build, weights = _blocks(node), node.build, _constant(node, 1)
    outer, inner = weights.shape[:2]
    group = node.attributes.get("group", 1)
    blocked, inside = blocks.takes_blocks(inner, outer, group, found.width)
    weights = blocks.undo_blocks(weights, found.width, inputs=inside)
    made = found.channels.get(node.outputs[0], outer)
    if inside and group == 1:
        weights = weights[:, : found.taken.get(node.outputs[0], inner)]
    elif blocked and not inside:
        group = made
    operands = [node.input(0), build.constant(onnx.numpy_helper.from_array(weights[:made].copy())), None]
    if node.input(2):
        operands[2] = build.constant(onnx.numpy_helper.from_array(_constant(node, 2)[:made].copy()))
    own = {name: node.attributes.get(name) for name in _WINDOWS}
    y = build.emit("Conv", operands, {**own, "group": group})
    return activated_convolution_of(node, build.Add(y, node.input(3)) if node.input(3) else y)


@says("Replaced onnxruntime's blocked layout by NCHW, ONNX's layout")
def into_blocks(node: Node) -> str:
    found, build = _blocks(node), node.build
    x = channels_first(build, node.input(0), _RANK) if node.attributes.get("channels_last", 0) else node.input(0)
    if node.outputs[0] in found.channels:
        return x
    count = (node.scope.shape(node.input(0)) or [None] * _RANK)[-1 if node.attributes.get("channels_last", 0) else 1]
    if not isinstance(count, int):
        raise CannotConvert(node, "the number of channels is unknown")
    missing = -count % found.width
    return str(build.Pad(x, [0, 0, 0, 0, 0, missing, 0, 0])) if missing else x


@says("Replaced onnxruntime's blocked layout by NCHW, ONNX's layout")
def out_of_blocks(node: Node) -> str:
    _blocks(node)
    x = node.input(0)
    return channels_last(node.build, x, _RANK) if node.attributes.get("channels_last", 0) else x


@says("Replaced the blocked pooling by ONNX's pooling in NCHW layout")
def pooling(node: Node) -> str:
    _blocks(node)
    own = {name: node.attributes.get(name) for name in (*_WINDOWS, "ceil_mode", "count_include_pad")}
    if node.op_type == "MaxPool":
        del own["count_include_pad"]
    return str(node.build.emit(node.op_type, [node.input(0)], own))


@says("Replaced the blocked global pooling by ONNX's in NCHW layout")
def global_pooling(node: Node) -> str:
    _blocks(node)
    return str(node.build.emit(node.op_type, [node.input(0)]))


@says("Replaced the blocked Upsample by Resize in NCHW layout")
def resize_of_blocks(node: Node) -> str:
    _blocks(node)
    build, given = node.build, node.attributes
    scales = build.constant([float(scale) for scale in given["scales"]], TensorProto.FLOAT)
    own = {
        "mode": given.get("mode", "nearest"),
        "coordinate_transformation_mode": given.get("coordinate_transformation_mode", "asymmetric"),
        "nearest_mode": "floor",
    }
    return str(build.emit("Resize", [node.input(0), None, scales], own))


defined("Conv", convolution, opset=22, domain=NCHWC)
defined("ReorderInput", into_blocks, opset=13, domain=NCHWC)
defined("ReorderOutput", out_of_blocks, opset=13, domain=NCHWC)
defined(("MaxPool", "AveragePool"), pooling, opset=19, domain=NCHWC)
defined(("GlobalAveragePool", "GlobalMaxPool"), global_pooling, opset=13, domain=NCHWC)
defined("Upsample", resize_of_blocks, opset=13, domain=NCHWC)
refused(
    schemas.operators(NHWC),
    "onnxruntime makes it in memory for one device, no CPU kernel judges it, and no text says in which order its "
    "weights lie; supported: the model before onnxruntime optimized it",
    domain=NHWC,
)

"""Upsample, which Resize took the place of."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.sampling.gathered import sampled_by_scales
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Height and width had a scale each, which are two of four now; the mode bilinear is called linear.")
def sides_to_scales(node: Node) -> None:
    height, width = (float(node.attributes.pop(name)) for name in ("height_scale", "width_scale"))
    node.attributes["scales"] = [1.0, 1.0, height, width]
    if node.attributes.get("mode", "nearest") == "bilinear":
        node.attributes["mode"] = "linear"


@says("Only height and width could be scaled, of images in a batch; the mode linear was called bilinear.")
def scales_to_sides(node: Node) -> None:
    scales = node.attributes.pop("scales")
    if len(scales) != 4 or scales[:2] != [1.0, 1.0]:
        raise CannotConvert(node, f"scales={scales}; two of four axes, height and width, could be expressed")
    node.attributes["height_scale"], node.attributes["width_scale"] = scales[2:]
    if node.attributes.get("mode", "nearest") == "linear":
        node.attributes["mode"] = "bilinear"


@says("scales was an attribute and becomes an input.")
def scales_to_input(node: Node) -> None:
    node.set_input(1, node.build.constant(node.attributes.pop("scales"), T.FLOAT))


@says("scales becomes an attribute; with scales known only at run time, the elements are sampled.")
def scales_to_attribute(node: Node) -> Replacement:
    scales = node.scope.array(node.input(1))
    if scales is None:
        return sampled_by_scales(node)
    if scales.ndim != 1:
        raise CannotConvert(node, f"scales of shape {list(scales.shape)}; a vector could be expressed")
    dims = node.scope.shape(node.input(0))
    if dims is not None and len(dims) != len(scales):
        raise CannotConvert(
            node, f"{len(scales)} scales of data of rank {len(dims)}; one for each axis could be expressed"
        )
    node.inputs = node.inputs[:1]
    node.attributes["scales"] = [float(scale) for scale in scales]
    return None


@says("Upsample was replaced by Resize, which does the same.")
def upsample_to_resize(node: Node) -> None:
    node.op_type = "Resize"


changed("Upsample", 7, Pair(up=sides_to_scales, down=scales_to_sides))
changed("Upsample", 9, Pair(up=scales_to_input, down=scales_to_attribute))
changed("Upsample", 10, Pair(up=upsample_to_resize))

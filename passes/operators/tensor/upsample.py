"""Upsample, which Resize took the place of."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.sampling.gathered import sample_by_scales
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced height_scale and width_scale of Upsample by scales; renamed mode bilinear to linear")
def sides_to_scales(node: Node) -> None:
    height, width = (float(node.attributes.pop(name)) for name in ("height_scale", "width_scale"))
    node.attributes["scales"] = [1.0, 1.0, height, width]
    if node.attributes.get("mode", "nearest") == "bilinear":
        node.attributes["mode"] = "linear"


@says("Replaced scales of Upsample by height_scale and width_scale; renamed mode linear to bilinear")
def scales_to_sides(node: Node) -> None:
    scales = node.attributes.pop("scales")
    if len(scales) != 4 or scales[:2] != [1.0, 1.0]:
        raise CannotConvert(node, f"scales={scales}", supported="images of rank 4, scaled in height and width only")
    node.attributes["height_scale"], node.attributes["width_scale"] = scales[2:]
    if node.attributes.get("mode", "nearest") == "linear":
        node.attributes["mode"] = "bilinear"


@says("Moved scales of Upsample from attribute to input")
def scales_to_input(node: Node) -> None:
    node.set_input(1, node.build.constant(node.attributes.pop("scales"), T.FLOAT))


@says("Moved scales of Upsample from input to attribute; replaced dynamic scales by Gather")
def scales_to_attribute(node: Node) -> Replacement:
    scales = node.scope.array(node.input(1))
    if scales is None:
        return sample_by_scales(node)
    if scales.ndim != 1:
        raise CannotConvert(node, f"scales of shape {list(scales.shape)}", supported="a vector")
    dims = node.scope.shape(node.input(0))
    if dims is not None and len(dims) != len(scales):
        raise CannotConvert(
            node, f"there are {len(scales)} scales for data of rank {len(dims)}", supported="one scale for each axis"
        )
    node.inputs = node.inputs[:1]
    node.attributes["scales"] = [float(scale) for scale in scales]
    return None


@says("Renamed Upsample to Resize")
def upsample_to_resize(node: Node) -> None:
    node.op_type = "Resize"


changed("Upsample", 7, Pair(up=sides_to_scales, down=scales_to_sides))
changed("Upsample", 9, Pair(up=scales_to_input, down=scales_to_attribute))
changed("Upsample", 10, Pair(up=upsample_to_resize))

"""RoiAlign."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import carrier_casts
from opshift.passes.operators.shared.sampling.regions import pooled_samples
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto

MODE = "coordinate_transformation_mode"


@says("Set coordinate_transformation_mode of RoiAlign to the old default, output_half_pixel")
def no_pixel_shift(node: Node) -> None:
    node.attributes[MODE] = "output_half_pixel"


@says("Shifted constant regions by half a pixel; replaced RoiAlign by Gather for dynamic regions")
def shifted_regions(node: Node) -> Replacement:
    mode = node.attributes.pop(MODE, "half_pixel")
    if mode not in ("half_pixel", "output_half_pixel"):
        raise CannotConvert(node, f"{MODE}={mode}", supported="half_pixel, output_half_pixel")
    if mode == "output_half_pixel":
        return None
    rois, scale = node.scope.array(node.input(1)), node.attributes.get("spatial_scale", 1.0)
    if rois is None or ((rois[:, 2:] - rois[:, :2]) * scale < 1).any():
        return pooled_samples(node, offset=0.5)
    node.close("regions are shifted before they are scaled")
    node.set_input(1, node.build.constant(rois - 0.5 / scale, node.elem_type(1)))
    return None


@says("Replaced RoiAlign by gathering, weighting and pooling the samples of each region")
def gathered_samples(node: Node) -> str:
    return pooled_samples(node)


BFLOAT16 = carrier_casts({T.BFLOAT16: T.FLOAT}, why="bfloat16 is pooled in float32", variable="T1")

changed("RoiAlign", 10, Pair(down=gathered_samples))
changed("RoiAlign", 16, Pair(up=no_pixel_shift, down=shifted_regions))
changed("RoiAlign", 22, Pair(down=BFLOAT16))

"""AffineGrid before it existed: its coordinates are computed."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced AffineGrid by theta * (x, y, [z,] 1)")
def transformed_coordinates(node: Node) -> str:
    build, elem_type = node.build, node.elem_type()
    axes = _spatial_axes(node)
    wide = T.FLOAT if elem_type in (T.FLOAT16, T.BFLOAT16) else elem_type
    node.close("sums in another order")
    theta = node.input(0) if wide == elem_type else build.Cast(node.input(0), to=wide)
    theta = build.Unsqueeze(build.Transpose(theta, perm=[0, 2, 1]), list(range(2, axes + 1)))
    *columns, total = build.emit("Split", [theta], {"axis": 1, "num_outputs": axes + 1}, outputs=axes + 1)
    for axis, column in enumerate(reversed(columns)):
        total = build.Add(total, build.Mul(column, _coordinate(node, axis, axes, wide)))
    return str(build.Cast(total, to=elem_type) if wide != elem_type else total)


def _spatial_axes(node: Node) -> int:
    for index, less in ((1, 2), (0, 1)):
        dims = node.scope.shape(node.input(index))
        if dims and isinstance(dims[-1], int):
            return dims[-1] - less
    raise CannotConvert(node, "the number of spatial axes is unknown", supported="a size input of known length")


def _coordinate(node: Node, axis: int, axes: int, wide: int) -> str:
    """1 - 2 (n - 1 - i) / (n - 1) where corners are centres of pixels, else (2 i + 1) / n - 1; along one axis

    So corners are counted from the last one, which is where onnxruntime has the only pixel of a size of 1.
    """
    import numpy as np

    build, corners = node.build, node.attributes.get("align_corners", 0)
    held, shape = node.scope.ints(node.input(1)), [-1] + [1] * (axes - axis)
    if held is not None:
        n = held[axis + 2]
        i = np.arange(n, dtype=np.float64)
        line = 1 - 2 * (n - 1 - i) / max(n - 1, 1) if corners else (2 * i + 1) / n - 1
        return build.constant(line.reshape(shape), wide)
    size = build.Gather(node.input(1), axis + 2)
    place = build.Cast(flat_indices.count(build, size), to=wide)
    one, two, size = build.constant(1, wide), build.constant(2, wide), build.Cast(size, to=wide)
    if corners:
        last = build.Sub(size, one)
        behind = build.Div(build.Mul(build.Sub(last, place), two), build.Max(last, one))
        line = build.Sub(one, behind)
    else:
        line = build.Sub(build.Div(build.Add(build.Mul(place, two), one), size), one)
    return str(build.Reshape(line, shape))


changed("AffineGrid", 20, Pair(down=transformed_coordinates))

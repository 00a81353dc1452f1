"""EyeLike, which opset 9 brought; bfloat16 came (22)."""

from __future__ import annotations

from opshift.passes.model import tensors
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.generators import make_in_float
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says


@says("Replaced EyeLike by comparing row index + k with column index")
def compared_coordinates(node: Node) -> str:
    build, k = node.build, node.attributes.get("k", 0)
    dtype = node.attributes.get("dtype") or node.elem_type()
    rows, columns = flat_indices.sizes(node, node.input(0))
    if isinstance(rows, int) and isinstance(columns, int) and rows * columns <= tensors.SMALL:
        import numpy as np

        return node.build.constant(np.eye(rows, columns, k), dtype)
    row = build.Reshape(flat_indices.count(build, rows), [-1, 1])
    shifted = build.Add(row, k) if k else row
    return str(build.Cast(build.Equal(flat_indices.count(build, columns), shifted), to=dtype))


changed("EyeLike", 9, Pair(down=compared_coordinates))
changed("EyeLike", 22, Pair(down=make_in_float))

"""IsInf before it existed, and the types that came to it."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import BFLOAT16, FLOAT8, carrier_casts
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced IsInf by comparing with the largest and the lowest number")
def beyond_the_largest_number(node: Node) -> str:
    import numpy as np

    build, x, elem_type = node.build, node.input(0), node.elem_type()
    limits = np.finfo(np.float64 if elem_type == T.DOUBLE else np.float32)
    found = []
    if node.attributes.get("detect_positive", 1):
        found.append(build.Greater(x, build.constant(limits.max, elem_type)))
    if node.attributes.get("detect_negative", 1):
        found.append(build.Less(x, build.constant(limits.min, elem_type)))
    if not found:
        return str(build.Less(x, x))
    return str(found[0] if len(found) == 1 else build.Or(*found))


changed("IsInf", 10, Pair(down=beyond_the_largest_number))
changed("IsInf", 20, Pair(down=carrier_casts({**FLOAT8, **BFLOAT16, T.FLOAT16: T.FLOAT}, variable="T1")))

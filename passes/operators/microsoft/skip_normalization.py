"""SkipLayerNormalization: a sum is normalized, and passed on.

The kernels add, and normalize, 16-bit floats in float32: what is normalized is the sum before it is rounded.
"""

from __future__ import annotations

from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says


@says("LayerNormalization of input + skip + bias; the sum itself is another output.")
def normalized_sum(node: Node) -> list[str]:
    build, kind = node.build, node.elem_type()
    wide = wider(kind)
    node.close("the kernel subtracts the square of the mean")
    data, skip, gamma, beta, bias = (
        recast(build, node.input(i), kind, wide) if node.input(i) else "" for i in range(5)
    )
    total = build.Add(data, skip)
    total = build.Add(total, bias) if bias else total
    epsilon = node.attributes.get("epsilon", 1e-12)
    statistics = max((i for i in (1, 2) if node.is_used(i)), default=0)
    made = build.emit(
        "LayerNormalization", [total, gamma, beta], {"axis": -1, "epsilon": epsilon}, outputs=1 + statistics
    )
    normal, *saved = [made] if isinstance(made, str) else made
    results = [recast(build, normal, wide, kind), *saved, *[""] * (2 - statistics)]
    if node.is_used(3):
        results.append(recast(build, total, wide, kind))
    return [*results, *[""] * 4][: len(node.outputs)]


defined("SkipLayerNormalization", normalized_sum, opset=17, domain=MICROSOFT)

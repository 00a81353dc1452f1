"""CategoryMapper of ai.onnx.ml: strings as numbers, or numbers as strings, by two lists."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.validity import fault
from opshift.passes.operators.shared.classical.lookups import OPSET, look_up
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced CategoryMapper by Gather from a table, for strings after a comparison with each key")
def categories_by_table(node: Node) -> str:
    strings, numbers = node.attributes.get("cats_strings", []), node.attributes.get("cats_int64s", [])
    if len(strings) != len(numbers) or not strings:
        raise fault(f"{len(strings)} cats_strings for {len(numbers)} cats_int64s", node.proto)
    if node.elem_type() == T.STRING:  # of a category that is repeated the kernel takes the last, as a dict does
        pairs = dict(zip(strings, numbers, strict=True))
        default = node.attributes.get("default_int64", -1)
        return look_up(node, list(pairs), T.STRING, list(pairs.values()), T.INT64, default)
    named = dict(zip(numbers, strings, strict=True))
    default = node.attributes.get("default_string", "_Unused")
    return look_up(node, list(named), T.INT64, list(named.values()), T.STRING, default)


defined("CategoryMapper", categories_by_table, opset=OPSET, domain="ai.onnx.ml")

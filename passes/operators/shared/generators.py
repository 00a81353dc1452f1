"""Types that generators take and make."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Replacement
from opshift.passes.rewrite.says import says

T = TensorProto
DRAWS = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")


@says("Generated bfloat16 as float32, and cast the result")
def make_in_float(node: Node) -> Replacement:
    dtype = node.attributes.get("dtype")
    if node.inputs and node.elem_type() == T.BFLOAT16:
        node.set_input(0, node.build.Cast(node.input(0), to=T.FLOAT))
        if dtype is None and node.op_type != "Multinomial":
            dtype = node.attributes["dtype"] = T.BFLOAT16
    if dtype != T.BFLOAT16 or node.op_type == "Bernoulli":  # which could make what it could not take
        return None
    if node.op_type in DRAWS:
        node.close("random numbers are rounded to bfloat16")
    made = node.build.again(node.proto, node.inputs, dtype=T.FLOAT)
    return str(node.build.Cast(made, to=T.BFLOAT16))

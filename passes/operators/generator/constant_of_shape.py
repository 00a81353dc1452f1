"""ConstantOfShape, which opset 9 brought, and which filled in fewer types before 20."""

from __future__ import annotations

from math import prod
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto
# Types that are cast from float32, and the saturate that keeps all of their values.
CAST_AFTERWARDS = {
    T.BFLOAT16: None,
    T.FLOAT8E4M3FN: 0,
    T.FLOAT8E4M3FNUZ: 0,
    T.FLOAT8E5M2: 0,
    T.FLOAT8E5M2FNUZ: 0,
}


@says("Replaced ConstantOfShape by Expand, or by a constant if it is small")
def expanded_scalar(node: Node) -> str:
    value = node.attributes.get("value")
    held = tensors.array(value) if value is not None else None
    if value is not None and held is None:
        raise CannotConvert(node, "the data of the attribute value cannot be read")
    elem_type = T.FLOAT if value is None else value.data_type
    one: Any = 0.0 if held is None else held.reshape([])
    shape = node.scope.ints(node.input(0))
    if shape is not None and prod(shape) <= tensors.SMALL:
        import numpy as np

        return node.build.constant(np.full(shape, one), elem_type)
    return str(node.build.Expand(node.build.constant(one, elem_type), node.input(0)))


@says("Filled bfloat16 and float8 as float, and cast the result")
def fill_in_float(node: Node) -> Replacement:
    value = node.attributes.get("value")
    if value is None or value.data_type not in CAST_AFTERWARDS:
        return None
    held = tensors.array(value)
    if held is None:
        raise CannotConvert(node, "the data of the attribute value cannot be read")
    filled = node.build.ConstantOfShape(node.input(0), value=tensors.tensor(held.astype("float32"), T.FLOAT))
    return str(node.build.Cast(filled, to=value.data_type, saturate=CAST_AFTERWARDS[value.data_type]))


changed("ConstantOfShape", 9, Pair(down=expanded_scalar))
changed("ConstantOfShape", 20, Pair(down=fill_in_float))

"""NonZero before it existed."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.carriers import MULTIPLIED
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
# The types that Cast turns into bool.
BOOLEAN_BY_CAST = (T.BOOL, T.FLOAT16, T.FLOAT, T.DOUBLE, *MULTIPLIED)
# Operators that make no other elements than those of their first input.
REPEATS = ("Expand", "Tile", "Reshape", "Unsqueeze", "Identity")


@says("Replaced NonZero by a constant, by counting, or by a Loop")
def found_one_after_another(node: Node) -> str:
    build, scope, name = node.build, node.scope, node.input(0)
    held, shape = scope.array(name), scope.shape(name)
    if shape == []:
        raise CannotConvert(node, "the input of NonZero is a scalar, and runtimes disagree on the shape of the result")
    if held is not None:
        import numpy as np

        return build.constant(np.array(np.nonzero(held)), T.INT64)
    while held is None and (made := scope.producer(name)) is not None and made.op_type in REPEATS:
        name = made.input[0]
        held = scope.array(name)
    if held is not None and held.all() and shape is not None and len(shape) == 1:
        count = build.Reshape(build.Shape(node.input(0)), [])
        return str(build.Reshape(flat_indices.count(build, count), [1, -1]))
    return _coordinates(node)


def _coordinates(node: Node) -> str:
    build, name = node.build, node.input(0)
    if node.elem_type() not in BOOLEAN_BY_CAST:
        raise CannotConvert(node, "the input holds strings or complex numbers", supported="constants of these types")
    dims = flat_indices.sizes(node, name)
    flat = build.Reshape(name, [-1]) if len(dims) > 1 else name
    rest = flat_indices.where_true(build, flat if node.elem_type() == T.BOOL else build.Cast(flat, to=T.BOOL))
    rows = list[str]()
    for step in flat_indices.strides(build, dims)[:-1]:
        rows.append(flat_indices.rows(build, rest, step))
        rest = build.Sub(rest, build.Mul(rows[-1], step))
    rows = [build.Unsqueeze(row, axes=[0]) for row in (*rows, rest)]
    return rows[0] if len(rows) == 1 else str(build.Concat(*rows, axis=0))


changed("NonZero", 9, Pair(down=found_one_after_another))

"""PRelu: a slope per channel, then slopes that are broadcast (7), integers (9) and bfloat16 (16)."""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.carriers import ROUNDED
from opshift.passes.operators.shared.recipes import without_hint
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Dropped the attribute consumed_inputs of PRelu; checked the rank of slope")
def slopes_within_x(node: Node) -> None:
    without_hint(node)
    x, slope = map(node.scope.rank, node.inputs)
    if x is not None and slope is not None and x < slope:
        raise CannotConvert(
            node,
            f"the slope has rank {slope}, and the input has rank {x}",
            supported="a slope of at most the rank of the input",
        )


@says("Reshaped a vector of slopes to one slope for each channel")
def slope_per_channel(node: Node) -> None:
    dims = node.scope.shape(node.input(1))
    if dims is None:
        node.rank(1)
    if dims == [1] or len(dims or []) != 1:
        return
    if (rank := node.rank(0)) > 2:
        node.set_input(1, node.build.Unsqueeze(node.input(1), axes=list(range(1, rank - 1))))


@says("Reshaped slope to one value, or to one value for each channel")
def slope_as_vector(node: Node) -> Replacement:
    build, rank = node.build, node.rank(0)
    node.rank(1)
    x, dims = node.scope.shape(node.input(0)) or [], node.scope.shape(node.input(1)) or []
    longer = [k + rank - len(dims) for k, dim in enumerate(dims) if dim != 1]
    if longer in ([], [1]):
        if rank and len(dims) != 1:
            node.set_input(1, build.Reshape(node.input(1), [-1]))
        return None
    run = x[longer[0] :]
    slopes = dims[longer[0] - rank :]
    if longer[0] < 0 or run != slopes or not all(isinstance(dim, int) for dim in run):
        raise CannotConvert(
            node,
            "the slope is neither a scalar, nor one value for each channel, nor has it the shape of the last axes of x",
        )
    if 0 in x:
        return node.input(0)
    count = prod(dim for dim in run if isinstance(dim, int))
    flat = [build.Reshape(node.input(0), [-1, count]), build.Reshape(node.input(1), [count])]
    known = [dim if isinstance(dim, int) else -1 for dim in x]
    shape = known if known.count(-1) < 2 else build.Shape(node.input(0))
    return str(build.Reshape(build.again(node.proto, flat), shape))


@says("Replaced PRelu of integers by x * (1 + negative * (slope - 1)), where negative is 1 for x < 0, else 0")
def sloped_integers(node: Node) -> Replacement:
    elem_type, build, (x, slope) = node.elem_type(), node.build, node.inputs
    if elem_type in (T.UINT32, T.UINT64):
        return x
    if elem_type not in (T.INT32, T.INT64):
        return None
    one = build.constant(1, elem_type)
    below = build.Less(build.Cast(x, to=T.DOUBLE), build.constant(0.0, T.DOUBLE))  # a double keeps every sign
    steeper = build.Mul(build.Cast(below, to=elem_type), build.Sub(slope, one))
    return str(build.Mul(x, build.Add(steeper, one)))


changed("PRelu", 6, Pair(up=slopes_within_x))
changed("PRelu", 7, Pair(up=slope_per_channel, down=slope_as_vector))
changed("PRelu", 9, Pair(down=sloped_integers))
changed("PRelu", 16, ROUNDED)

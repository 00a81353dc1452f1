"""MaxUnpool before there were scatters: each element of the result looks up the index that names it."""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import BFLOAT16, carrier_casts
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, same
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced MaxUnpool by sorting indices and Gather")
def sorted_and_looked_up(node: Node) -> str:
    build, dims = node.build, node.scope.shape(node.input(0)) or [None]
    sizes = [dim for dim in dims if isinstance(dim, int)]
    if len(sizes) < len(dims):
        raise CannotConvert(node, "the size of the data is unknown")
    shape = _unpool(node, sizes)
    given, made = prod(sizes), prod(shape)
    if not made:  # no TopK takes none
        return str(build.Expand(build.constant([0], node.elem_type()), shape))
    indices = build.Reshape(node.input(1), [-1])
    evens = build.Mul(build.Cast(indices, to=T.DOUBLE), build.constant(-2.0, T.DOUBLE))
    odds = build.constant([-1.0 - 2 * k for k in range(made)], T.DOUBLE)  # descending: index k, then place k
    everything = given + made
    order = build.emit("TopK", [build.Concat(evens, odds, axis=0)], {"k": everything, "axis": 0}, outputs=2)[1]
    ranks = build.Neg(build.Cast(order, to=T.DOUBLE))
    found = build.emit("TopK", [ranks], {"k": everything, "axis": 0}, outputs=2)[1]  # where each of them was sorted to
    before = build.Concat([everything], order, axis=0)
    last = build.Gather(before, build.Slice(found, axes=[0], starts=[given], ends=[everything]))
    names = build.Concat(indices, [-1] * (made + 1), axis=0)
    named = build.Equal(build.Gather(names, last), list(range(made)))
    place = build.Add(build.Mul(build.Sub(last, given), build.Cast(named, to=T.INT64)), given)
    values = build.Concat(build.Reshape(node.input(0), [-1]), build.constant([0], node.elem_type()), axis=0)
    return str(build.Reshape(build.Gather(values, place), shape))


def _unpool(node: Node, sizes: list[int]) -> list[int]:
    """The shape of the result."""
    read, kernel = node.attributes.get, node.attributes["kernel_shape"]
    rank = len(kernel)
    strides, pads = read("strides") or [1] * rank, read("pads") or [0] * 2 * rank
    shape = sizes[:2] + [
        (size - 1) * strides[k] - pads[k] - pads[k + rank] + kernel[k] for k, size in enumerate(sizes[2:])
    ]
    if node.input(2) and node.scope.ints(node.input(2)) != shape:
        raise CannotConvert(
            node,
            "output_shape differs from the shape that kernel and strides give, and runtimes disagree "
            "where the indices point then",
            supported=f"output_shape={shape}",
        )
    return shape


changed("MaxUnpool", 9, Pair(down=sorted_and_looked_up))
same("MaxUnpool", 11, "only the text changed: it states a default")
changed("MaxUnpool", 22, Pair(down=carrier_casts(BFLOAT16, variable="T1")))

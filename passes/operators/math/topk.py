"""TopK: k became an input (10); the smallest elements and integers came (11), bfloat16 (24)."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.carriers import HELD_BY_FLOATS
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.recipes import BFLOAT16, carrier_casts, nonnegative_axis
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Moved k of TopK from attribute to input")
def k_to_input(node: Node) -> None:
    node.set_input(1, node.build.constant(tensors.int64s([node.attributes.pop("k")]), hint="k"))


@says("Moved constant k of TopK from input to attribute; for a dynamic k, sorted all elements and sliced, or looped")
def k_to_attribute(node: Node) -> Replacement:
    held = node.scope.ints(node.input(1))
    if held and held[0] < 0:
        raise CannotConvert(node, f"k={held[0]}", supported="0 or more")
    if held and held[0]:
        node.set_input(1, "")
        node.attributes["k"] = held[0]
        return None
    build, rank = node.build, node.rank()
    axis = node.attributes.get("axis", -1) % rank
    length = (node.scope.shape(node.input(0)) or [])[axis]
    if held or length == 0:  # k had to be positive
        nothing = build.Slice(node.input(0), starts=[0], ends=[0], axes=[axis])
        return [nothing, build.Cast(nothing, to=T.INT64)]
    if not isinstance(length, int):
        return _pick_in_rounds(node, axis)
    ones = build.ConstantOfShape(node.input(1), value=tensors.int64s([1]))
    first = build.Squeeze(build.NonZero(ones), axes=[0])
    return [build.Gather(out, first, axis=axis) for out in build.again(node.proto, [node.input(0)], k=length)]


def _pick_in_rounds(node: Node, axis: int) -> list[str]:
    build, (x, k), elem_type = node.build, node.inputs, node.elem_type()
    dims = flat_indices.sizes(node, x)
    count = dims[axis]
    numbers = build.Sub(count, flat_indices.places(build, dims, [int(k == axis) for k in range(len(dims))]))

    def pick(inner: Builder, _: str, left: list[str]) -> list[str]:
        first = flat_indices.first_greatest(inner, x, left[0], numbers, axis, elem_type)
        others = inner.And(left[0], inner.Not(inner.Equal(numbers, first)))
        return [others, inner.Squeeze(inner.Sub(count, first), axes=[axis])]

    everything = (flat_indices.always(build, x, elem_type), tensor_type(T.BOOL, [None] * len(dims)))
    rounds = build.Reshape(k, build.constant([], T.INT64))
    at = build.loop(rounds, [everything], pick)[1]
    others = [*dims[:axis], *dims[axis + 1 :]]
    if any(isinstance(size, str) or size == 1 for size in others):  # which no round at all would take for 0
        at = build.Reshape(at, flat_indices.vector(build, [k, *others]))
    if axis:
        at = build.Transpose(at, perm=[*range(1, axis + 1), 0, *range(axis + 1, len(dims))])
    return [_at(build, x, at, axis, dims), at]


def _at(build: Builder, values: str, indices: str, axis: int, dims: list[Size]) -> str:
    """The values at the indices along an axis."""
    steps = flat_indices.strides(build, dims)
    line = flat_indices.places(build, [1 if k == axis else n for k, n in enumerate(dims)], steps)
    along = indices if steps[axis] == 1 else build.Mul(indices, steps[axis])
    return str(build.Gather(build.Reshape(values, [-1]), flat_indices.plus(build, along, line)))


@says("Found the smallest elements as the largest of the negated ones; sorted integers as floats")
def largest_in_order(node: Node) -> Replacement:
    node.attributes.pop("sorted", 1)  # 0 allows any order
    largest = node.attributes.pop("largest", 1)
    if node.attributes.get("axis", -1) < -1:  # the default shows that -1 was allowed
        nonnegative_axis(default=-1)(node)
    elem_type, build = node.elem_type(), node.build
    if elem_type in (T.INT64, T.UINT64):
        return _by_halves(node, elem_type, largest)
    if largest and elem_type not in HELD_BY_FLOATS:
        return None
    x = build.Cast(node.input(0), to=HELD_BY_FLOATS[elem_type]) if elem_type in HELD_BY_FLOATS else node.input(0)
    values, indices = build.again(node.proto, [x if largest else build.Neg(x), node.input(1)])
    values = values if largest else build.Neg(values)
    return [build.Cast(values, to=elem_type) if elem_type in HELD_BY_FLOATS else values, indices]


def _by_halves(node: Node, elem_type: int, largest: int) -> list[str]:
    """Sorted by the lower 32 bits, then by the higher ones, which leaves equals in their order."""
    build, (x, k), rank = node.build, node.inputs, node.rank()
    axis, dims = node.attributes.get("axis", -1) % rank, flat_indices.sizes(node, x)
    bits = build.constant(2**32, elem_type)

    def order(half: str, count: str) -> str:
        half = build.Cast(half, to=T.DOUBLE)
        return str(build.again(node.proto, [half if largest else build.Neg(half), count])[1])

    high = build.Div(x, bits)  # rounded towards zero; the rest has the sign of the whole
    by_low = order(build.Sub(x, build.Mul(high, bits)), flat_indices.vector(build, [dims[axis]]))
    at = _at(build, by_low, order(_at(build, high, by_low, axis, dims), k), axis, dims)
    return [_at(build, x, at, axis, dims), at]


changed("TopK", 10, Pair(up=k_to_input, down=k_to_attribute))
changed("TopK", 11, Pair(down=largest_in_order))
changed("TopK", 24, Pair(down=carrier_casts(BFLOAT16)))

"""NonMaxSuppression before it existed: in every round each class of each batch picks the best box that is left."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, same
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced NonMaxSuppression by a Loop that picks the best box and drops those that overlap it")
def pick_in_rounds(node: Node) -> str:
    """Boxes are told by how many there are from each one on, so that the first of equals has the greatest number, and 0
    is a box behind the last one, which overlaps none and is picked by classes that have no other left.
    """
    for index, name in enumerate(("boxes", "scores")):
        dims = node.scope.shape(node.input(index))
        if dims is not None and len(dims) != 3:
            raise CannotConvert(node, f"{name} has rank {len(dims)}", supported="rank 3")
    node.close("rounds the overlap of boxes, which matters close to the threshold")
    build, most = node.build, _most(node)
    batches, classes, count = flat_indices.sizes(node, node.input(1)) if most else (0, 0, 0)
    if 0 in (batches, classes, count):
        return build.constant(np.zeros([0, 3]), T.INT64)
    scores = build.Pad(node.input(1), pads=[0, 0, 0, 0, 0, 1])
    if isinstance(count, int):
        width: Size = count + 1
        number = build.constant(np.arange(count, -1, -1), T.INT64)
    else:
        width = build.Add(count, 1)
        number = build.Sub(count, flat_indices.count(build, width))
    boxes = _Boxes(node)
    last = flat_indices.places(build, [batches, 1, 1], [width, 0, 0], count)  # where each batch has the box numbered 0

    def pick(inner: Builder, _: str, left: list[str]) -> list[str]:
        first = flat_indices.first_greatest(inner, scores, left[0], number, 2, T.FLOAT)
        dropped = inner.Or(inner.Equal(number, first), boxes.overlaps(inner, inner.Sub(last, first)))
        others = inner.And(left[0], inner.Not(dropped))
        any_left = inner.Cast(inner.ReduceSum(inner.Cast(others, to=T.INT64), keepdims=0), to=T.BOOL)
        return [any_left, others, first]

    candidates = (_candidates(node, scores, number, most), tensor_type(T.BOOL, [None] * 3))
    rounds = most if isinstance(most, int) else _at_least_one(build, most)
    picked = build.loop(rounds, [candidates], pick, ends=True)[1]
    made = build.Gather(build.Shape(picked), 0)
    picked = build.Reshape(build.Transpose(picked, perm=[1, 2, 0, 3]), [-1])
    places = build.Squeeze(build.NonZero(picked), axes=[0])
    row = build.Div(places, made)
    batch = flat_indices.rows(build, row, classes)
    columns = (batch, build.Sub(row, build.Mul(batch, classes)), build.Sub(count, build.Gather(picked, places)))
    return str(build.Concat(*(build.Reshape(column, [-1, 1]) for column in columns), axis=1))


def _most(node: Node) -> Size:
    """How many boxes a class may pick, 0 without a limit given."""
    if not node.input(2):
        return 0
    held = node.scope.ints(node.input(2))
    return max(held[0], 0) if held else node.build.Reshape(node.input(2), node.build.constant([], T.INT64))


def _at_least_one(build: Builder, number: str) -> str:
    """A loop without a round would not tell the shape of what it yields."""
    positive = build.Cast(build.Greater(number, 0), to=T.INT64)
    return str(build.Add(build.Mul(number, positive), build.Sub(1, positive)))


def _candidates(node: Node, scores: str, number: str, most: Size) -> str:
    build, threshold = node.build, node.input(4)
    good = build.Greater(scores, threshold) if threshold else flat_indices.always(build, scores, T.FLOAT)
    good = build.And(good, build.Cast(number, to=T.BOOL))
    return good if isinstance(most, int) else str(build.And(good, build.Greater(most, 0)))


class _Boxes:
    """The ends of all boxes on both axes and their areas, with an empty box behind the last of each batch."""

    def __init__(self, node: Node):
        build = node.build
        self.threshold = node.input(3) or build.constant(0.0, T.FLOAT)
        padded = build.Pad(node.input(0), pads=[0, 0, 0, 0, 1, 0])
        numbers = [build.Transpose(build.Gather(padded, [k], axis=2), perm=[0, 2, 1]) for k in range(4)]
        ends = _ends_of_centered if node.attributes.get("center_point_box", 0) else _ends_of_corners
        self.ends = [ends(build, *numbers[axis::2]) for axis in range(2)]
        self.area = build.Mul(*(build.Sub(high, low) for low, high in self.ends))
        every = (self.area, *(end for pair in self.ends for end in pair))
        self.flat = {values: build.Reshape(values, [-1]) for values in every}

    def overlaps(self, build: Builder, place: str) -> str:
        """Which boxes overlap those at `place` by more than the threshold, in what both of them cover."""
        zero, one = build.constant(0.0, T.FLOAT), {v: build.Gather(flat, place) for v, flat in self.flat.items()}
        sides = [build.Sub(build.Min(high, one[high]), build.Max(low, one[low])) for low, high in self.ends]
        shared = build.Mul(*(build.Max(side, zero) for side in sides))
        union = build.Sub(build.Add(one[self.area], self.area), shared)
        return str(build.Greater(build.Div(shared, union), self.threshold))


def _ends_of_corners(build: Builder, a: str, b: str) -> tuple[str, str]:
    return build.Min(a, b), build.Max(a, b)


def _ends_of_centered(build: Builder, center: str, side: str) -> tuple[str, str]:
    half = build.Div(side, build.constant(2.0, T.FLOAT))
    return build.Sub(center, half), build.Add(center, half)


same("NonMaxSuppression", 11, "only the text changed")
changed("NonMaxSuppression", 10, Pair(down=pick_in_rounds))

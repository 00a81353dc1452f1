"""Resize where it is to be expanded: one matrix product for each axis, or elements gathered one by one."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.sampling import places
from opshift.passes.operators.shared.sampling.gathered import (
    Unknown,
    axes_to_resize,
    note_aligned,
    samples_by_gather,
    sampling_of,
    width_of,
)
from opshift.passes.operators.shared.sampling.places import Axis, Sampling, Undecided
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.says import says

T = TensorProto

LARGEST = 2**16
"""Elements of a matrix; beyond them gathering the few elements that count is faster, and the file stays small."""
POLICIES = ("stretch", "not_larger", "not_smaller")


@says("Replaced Resize by MatMul with interpolation weights, or by Gather")
def multiplied_along_each_axis(node: Node) -> str:
    how, elem_type = sampling_of(node), node.elem_type()
    policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy not in POLICIES:
        raise CannotConvert(node, f"keep_aspect_ratio_policy={policy}", supported=f"{', '.join(POLICIES)}")
    if (
        how.mode == "nearest"
        or how.coordinates == "tf_crop_and_resize"
        or elem_type not in (T.FLOAT16, T.FLOAT, T.DOUBLE)
    ):
        return samples_by_gather(node)
    try:
        axes = axes_to_resize(node)
        if 0 in (node.scope.shape(node.input(0)) or []) or not all(along.result for along in axes):
            return samples_by_gather(node)  # runtimes multiply no matrix by nothing
        matrices = [(along.axis, _matrix(along, how, elem_type)) for along in axes]
    except (Unknown, Undecided):
        return samples_by_gather(node)
    if not matrices or any(matrix.size > LARGEST for _, matrix in matrices):
        return samples_by_gather(node)
    note_aligned(node, axes, how)
    node.close("sums several elements; an infinity spreads along its axis")
    wide = T.FLOAT if elem_type == T.FLOAT16 else elem_type
    x = recast(node.build, node.input(0), elem_type, wide)
    for axis, matrix in matrices:
        x = _multiply(node, x, matrix, axis, wide)
    return recast(node.build, x, wide, elem_type)


def _matrix(along: Axis, how: Sampling, elem_type: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(result, size): what each element of the result takes of each element."""
    indices, weights = places.taps(along, how, width_of(elem_type))
    matrix = np.zeros((along.result, along.size))
    np.add.at(matrix, (np.arange(along.result)[:, None], indices), weights)
    return matrix


def _multiply(
    node: Node, x: str, matrix: np.ndarray[tuple[int, int], np.dtype[np.float64]], axis: int, elem_type: int
) -> str:
    build, rank = node.build, node.rank()
    if axis == rank - 1:
        return str(build.MatMul(x, build.constant(matrix.T, elem_type)))
    held = build.constant(matrix, elem_type)
    if axis == rank - 2:
        return str(build.MatMul(held, x))
    order = list(range(rank))
    order[axis], order[-2] = order[-2], order[axis]
    return str(build.Transpose(build.MatMul(held, build.Transpose(x, perm=order)), perm=order))

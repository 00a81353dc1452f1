"""Broadcasting of two operands below opset 7: only the second one, only on request, only as it stands.

There its shape had to be a run of the first operand's dimensions, `axis` telling where the run begins, or hold a
single element. From 7 on both operands are broadcast as numpy does.
"""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.types import Dim
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair
from opshift.passes.rewrite.says import says

# Operators that may be given their operands in the other order, and what they are called then.
SWAPPED = {op: op for op in ("Add", "Mul", "And", "Or", "Xor", "Equal")} | {"Greater": "Less", "Less": "Greater"}


@says("Replaced the attributes broadcast and axis by an Unsqueeze of the second operand")
def numpy_broadcast(node: Node) -> None:
    wanted, axis = node.attributes.pop("broadcast", 0), node.attributes.pop("axis", None)
    if not wanted or axis in (None, -1):  # without an axis the last dimensions are matched, as numpy does
        return
    dims = node.scope.shape(node.input(1))
    if dims is not None and all(dim == 1 for dim in dims):
        return
    behind = node.rank(0) - axis - node.rank(1)
    if axis < 0 or behind < 0:
        raise CannotConvert(node, f"axis={axis} is out of range for data of rank {node.rank(0)}")
    if behind:
        axes = [node.rank(1) + k for k in range(behind)]
        node.set_input(1, node.build.Unsqueeze(node.input(1), axes=axes))


@says("Set the attributes broadcast and axis, without which older opsets do not broadcast")
def limited_broadcast(node: Node) -> None:
    if node.scope.shape(node.input(1)) == [] and node.scope.shape(node.input(0)) != []:
        node.attributes["broadcast"] = 1  # a scalar takes any shape
        return
    a, b = (_known_shape(node, index) for index in (0, 1))
    if a == b and None not in a:
        return
    if not covers(node, a, b) and covers(node, b, a) and node.op_type in SWAPPED:
        node.op_type, node.inputs, a, b = SWAPPED[node.op_type], node.inputs[::-1], b, a
    if not covers(node, a, b):
        node.set_input(0, _tile(node.build, node.input(0), a, node.input(1), b))
        a = _join(a, b)
    if a == b and None not in a:
        return
    run = _run(a, b)
    if run is None:
        node.set_input(1, _tile(node.build, node.input(1), b, node.input(0), a))
        return
    start, stop = run
    offset = len(a) - len(b)
    kept = range(start - offset, stop - offset)
    if dropped := [k for k in range(len(b)) if k not in kept and start < stop]:
        node.set_input(1, node.build.Squeeze(node.input(1), axes=dropped))
    node.attributes["broadcast"] = 1
    if start < stop < len(a):
        node.attributes["axis"] = start


def _known_shape(node: Node, index: int) -> list[Dim]:
    node.rank(index)
    return list(node.scope.shape(node.input(index)) or [])


def covers(node: Node, a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether the result of broadcasting both has the shape of a."""
    if len(a) < len(b):
        return False
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if y != 1 and x != 1 and (x != y or x is None):
            raise CannotConvert(
                node,
                f"dimensions {x or '?'} and {y or '?'} may differ, and older opsets do not broadcast both operands",
                fix="--fix-shape",
            )
    return all(y == 1 or x != 1 for x, y in zip(reversed(a), reversed(b), strict=False))


def _join(a: Sequence[Dim], b: Sequence[Dim]) -> list[Dim]:
    rank = max(len(a), len(b))
    pairs = zip(_pad(a, rank), _pad(b, rank), strict=True)
    return [y if x == 1 else x for x, y in pairs]


def _pad(dims: Sequence[Dim], rank: int) -> list[Dim]:
    return [1] * (rank - len(dims)) + list(dims)


def _run(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[int, int] | None:
    """Where in a the dimensions of b lie, but for ones around them; None if b has ones among them."""
    wide = _pad(b, len(a))
    longer = [k for k, dim in enumerate(wide) if dim != 1]
    if not longer:
        return 0, 0
    start, stop = longer[0], longer[-1] + 1
    return (start, stop) if all(wide[k] == a[k] for k in range(start, stop)) else None


def _tile(build: Builder, name: str, dims: Sequence[Dim], other: str, onto: Sequence[Dim]) -> str:
    """`name` repeated to the shape that broadcasting it against `other` gives."""
    rank = max(len(dims), len(onto))
    if rank > len(dims):
        name = build.Unsqueeze(name, axes=list(range(rank - len(dims))))
    repeats = [y if x == 1 else 1 for x, y in zip(_pad(dims, rank), _pad(onto, rank), strict=True)]
    known = [count for count in repeats if isinstance(count, int)]
    if all(count == 1 for count in repeats):
        return name
    if len(known) == rank:
        return str(build.Tile(name, known))
    shape, skipped = build.Shape(other), rank - len(onto)
    parts = [
        build.constant(tensors.int64s([count]))
        if isinstance(count, int)
        else build.Slice(shape, axes=[0], starts=[k - skipped], ends=[k - skipped + 1])
        for k, count in enumerate(repeats)
    ]
    return str(build.Tile(name, build.Concat(*parts, axis=0)))


def of_one_shape(node: Node) -> bool:
    """Whether all operands are known to have the same shape, so that nothing is broadcast."""
    first, *others = (node.scope.shape(name) for name in node.inputs)
    return all(same_shape(first, other) for other in others)


def same_shape(a: Sequence[Dim] | None, b: Sequence[Dim] | None) -> bool:
    """Whether two shapes are known to be the same."""
    return a == b and a is not None and None not in a


LEGACY = Pair(up=numpy_broadcast, down=limited_broadcast)

"""Where before it existed: one of two values, element by element."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.carriers import MULTIPLIED
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.recipes import BFLOAT16, carrier_casts
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced Where by arithmetic for integers, by Gather for other types")
def choose_by_arithmetic_or_place(node: Node) -> str:
    elem_type = node.elem_type(1)
    if elem_type == T.BOOL:
        return _chosen_bools(node)
    if elem_type in MULTIPLIED:
        return _multiply(node, elem_type, MULTIPLIED[elem_type])
    return _gather(node)


def _chosen_bools(node: Node) -> str:
    build, (chosen, x, y) = node.build, node.inputs
    return str(build.Or(build.And(chosen, x), build.And(build.Not(chosen), y)))


def _multiply(node: Node, elem_type: int, carrier: int) -> str:
    """c * x + (1 - c) * y, which no integer overflows"""
    build, (chosen, x, y) = node.build, node.inputs
    if carrier != elem_type:
        x, y = build.Cast(x, to=carrier), build.Cast(y, to=carrier)
    first, second = (build.Cast(c, to=carrier) for c in (chosen, build.Not(chosen)))
    result = str(build.Add(build.Mul(first, x), build.Mul(second, y)))
    return result if carrier == elem_type else str(build.Cast(result, to=elem_type))


def _gather(node: Node) -> str:
    """gather(concat(y, x), place in y + c * (place in x - place in y)), all of them flattened"""
    import numpy as np

    build, (chosen, x, y) = node.build, node.inputs
    if (out := _common_sizes(node)) is None:
        return _gather_alike(node)
    y_dims = flat_indices.sizes(node, y)
    x_steps, y_steps = (_steps(node, name, out) for name in (x, y))
    offset = flat_indices.product(build, y_dims)
    apart = [flat_indices.minus(build, a, b) for a, b in zip(x_steps, y_steps, strict=True)]
    jump = flat_indices.places(build, out, apart, offset)
    base = flat_indices.places(build, out, y_steps)
    if (place := _known_places(node, jump, base, len(out))) is None:
        if len(node.scope.shape(chosen) or []) < len(out):  # the steps leave out axes of size 1 in front
            base = flat_indices.plus(build, build.constant(np.zeros([1] * len(out)), T.INT64), base)
        place = flat_indices.plus(build, build.Mul(build.Cast(chosen, to=T.INT64), jump), base)
    return str(build.Gather(_one_after_the_other(build, y, x), place, axis=0))


def _known_places(node: Node, jump: Size, base: Size, rank: int) -> str | None:
    """Where each element is gathered from, if the condition is constant and so is the rest."""
    import numpy as np

    parts = [jump, base, node.input(0)]
    held = [part if isinstance(part, int) else node.scope.array(part) for part in parts]
    if any(part is None for part in held):
        return None
    return node.build.constant(np.zeros([1] * rank) + held[1] + held[0] * held[2], T.INT64)  # type: ignore[operator]


def _one_after_the_other(build: Builder, *values: str) -> str:
    return str(build.Concat(*(build.Reshape(value, [-1]) for value in values), axis=0))


def _common_sizes(node: Node) -> list[Size] | None:
    """The sizes of the result, where it is known on each axis which values are repeated along it."""
    shapes = [node.scope.shape(name) for name in node.inputs]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    along = [[(k, shape[axis]) for k, shape in enumerate(known) if len(shape) >= -axis] for axis in range(-rank, 0)]
    longer = [{dim for _, dim in dims if dim != 1} for dims in along]
    if any(len(dims) > 1 or None in dims for dims in longer):
        return None
    found = list[Size]()
    for axis, dims, lengths in zip(range(-rank, 0), along, longer, strict=True):
        dim = next(iter(lengths), 1)
        if isinstance(dim, int):
            found.append(dim)
            continue
        k = next(k for k, other in dims if other == dim)
        found.append(node.build.Gather(node.build.Shape(node.inputs[k]), axis + len(known[k])))
    return found


def _steps(node: Node, name: str, out: list[Size]) -> list[Size]:
    """The strides of a value along the axes of the result; 0 where it is repeated."""
    shape, dims = node.scope.shape(name) or [], flat_indices.sizes(node, name)
    own = [0 if dim == 1 else step for dim, step in zip(shape, flat_indices.strides(node.build, dims), strict=True)]
    return [0] * (len(out) - len(own)) + own


def _gather_alike(node: Node) -> str:
    """Select by Gather after all values were expanded to one shape."""
    build, (chosen, x, y) = node.build, node.inputs
    ranks = [None if (shape := node.scope.shape(name)) is None else len(shape) for name in node.inputs]
    rank = None if None in ranks else max(r for r in ranks if r is not None)
    for name, other in ((x, ranks[1]), (y, ranks[2])):
        chosen = build.Expand(chosen, build.set_type(build.Shape(name), T.INT64, [other]))
        if rank is not None:
            build.set_type(chosen, T.BOOL, [None] * max(ranks[0] or 0, ranks[1] or 0, other or 0))
    joint, total = build.set_type(build.Shape(chosen), T.INT64, [rank]), build.Size(chosen)
    second = build.Expand(y, joint)
    both = _one_after_the_other(build, second, build.Expand(x, joint))
    if rank is None:  # Reshape would not take every shape of nothing

        def gather(inner: Builder) -> str:
            place = inner.Mul(inner.Cast(inner.Reshape(chosen, [-1]), to=T.INT64), total)
            place = inner.Add(place, flat_indices.count(inner, total))
            return str(inner.Reshape(inner.Gather(both, place, axis=0), joint))

        elem_type = node.elem_type(1)
        branches = {"then_branch": gather, "else_branch": lambda inner: str(inner.Identity(second))}
        made = {name: build.branch(compute, name, elem_type) for name, compute in branches.items()}
        return str(build.If(build.Cast(total, to=T.BOOL), **made))
    dims: list[Size] = [build.Gather(joint, axis) for axis in range(rank)]
    base = flat_indices.places(build, dims, flat_indices.strides(build, dims))
    place = build.Mul(build.Cast(chosen, to=T.INT64), total)
    return str(build.Gather(both, flat_indices.plus(build, place, base), axis=0))


changed("Where", 9, Pair(down=choose_by_arithmetic_or_place))
changed("Where", 16, Pair(down=carrier_casts(BFLOAT16)))

"""DFT, which opset 17 brought: its axis was an attribute and became an input (20)."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.operators.shared.fourier import given_length, parts_of, transform
from opshift.passes.operators.shared.recipes import from_the_caller
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says


@says("Moved axis of DFT from attribute to input")
def axis_to_input(node: Node) -> None:
    held = node.attributes.find("axis")
    if held is not None and held.ref_attr_name:
        axis = from_the_caller(node, held)
    else:
        axis = node.build.constant(tensors.int64s([held.i if held else 1], []), hint="axis")
    node.set_input(2, axis)
    if held is not None:
        del node.attributes["axis"]


@says("Moved axis of DFT from input to attribute; replaced a dynamic axis by If nodes")
def axis_to_attribute(node: Node) -> Replacement:
    held = node.scope.ints(node.input(2)) if node.input(2) else [-2]
    if held is None or len(held) != 1:
        return _along(node, node.build, 0)
    node.set_input(2, "")
    node.attributes["axis"] = held[0]
    return None


def _along(node: Node, build: Builder, axis: int) -> str:
    """Transformed along `axis` if that is the one asked for, else along one of those behind it."""
    rank, elem_type, asked = node.rank(), node.elem_type(), node.input(2)
    attributes = {name: node.attributes.get(name) for name in ("inverse", "onesided")}

    def here(branch: Builder) -> str:
        return str(branch.DFT(*node.inputs[:2], axis=axis, **attributes))

    def behind(branch: Builder) -> str:
        return _along(node, branch, axis + 1)

    if axis >= rank - 2:  # the last dimension holds the parts of complex numbers
        return here(build)
    wanted = build.Or(build.Equal(asked, axis), build.Equal(asked, axis - rank))
    branches = {
        "then_branch": build.branch(here, "here", elem_type),
        "else_branch": build.branch(behind, "behind", elem_type),
    }
    return build.set_type(build.If(wanted, **branches), elem_type)


@says("Replaced DFT by MatMul with matrices of cosines and sines")
def transform_by_matrices(node: Node) -> str:
    if "axis" not in node.attributes and len(node.inputs) > 2:
        raise CannotConvert(node, "axis is dynamic", supported="a constant axis")
    rank, axis = node.rank(), node.attributes.get("axis", 1)
    if not -rank <= axis < rank or axis % rank == rank - 1:
        raise CannotConvert(node, f"axis {axis} is out of range: the signal has {rank - 1} axes")
    inverse, onesided = (bool(node.attributes.get(name, 0)) for name in ("inverse", "onesided"))
    length, parts = given_length(node, 1), parts_of(node)
    return transform(node, node.input(0), rank, axis % rank, length, parts, inverse=inverse, onesided=onesided)


changed("DFT", 17, Pair(down=transform_by_matrices))
changed("DFT", 20, Pair(up=axis_to_input, down=axis_to_attribute))

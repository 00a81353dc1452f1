"""Split: sizes that moved from an attribute to an input, and the number of parts."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.operators.shared.carriers import INTEGERS_AS_DOUBLE
from opshift.passes.operators.shared.recipes import carrier_casts, nonnegative_axis
from opshift.passes.operators.shared.shapes import size_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says


@says("Set axis of Split; moved sizes from input to attribute")
def axis_and_sizes_are_told(node: Node) -> None:
    if "axis" not in node.attributes:
        node.attributes["axis"] = _axis_of_parts(node)
    if node.input(1):
        sizes = node.scope.array(node.input(1))
        if sizes is None:
            raise CannotConvert(
                node,
                "older opsets take the sizes as an attribute, but they are dynamic here",
                supported="constant sizes",
            )
        node.attributes["split"] = [int(size) for size in sizes]
        node.set_input(1, "")


def _axis_of_parts(node: Node) -> int:
    """The only axis along which a part is smaller than the whole."""
    whole, part = (node.scope.shape(name) for name in (node.input(0), node.outputs[0]))
    if whole is not None and part is not None and len(whole) == len(part):
        axes = [axis for axis, sizes in enumerate(zip(whole, part, strict=True)) if sizes[0] != sizes[1]]
        if len(axes) == 1:
            return axes[0]
    raise CannotConvert(node, "the attribute axis is missing, and it has no default at this opset")


@says("Set axis of Split; cast integers to double and back")
def parts_of_doubles(node: Node) -> Replacement:
    if "axis" not in node.attributes:
        node.attributes["axis"] = 0
    return carrier_casts(INTEGERS_AS_DOUBLE)(node)


@says("Moved sizes of Split from attribute to input")
def sizes_to_input(node: Node) -> None:
    sizes = node.attributes.pop("split", [])
    if sizes:
        node.set_input(1, node.build.constant(tensors.int64s(sizes)))


@says("Moved sizes of Split from input to attribute; replaced dynamic sizes by Slice")
def sizes_to_attribute(node: Node) -> Replacement:
    if not node.input(1):
        return None
    sizes = node.scope.ints(node.input(1))
    if sizes is None:
        return _slices(node)
    node.set_input(1, "")
    node.attributes["split"] = sizes
    return None


def _slices(node: Node) -> list[str]:
    build, axis = node.build, node.attributes.get("axis", 0)
    parts, start = [], build.constant(tensors.int64s([0]))
    for k in range(len(node.outputs)):
        end = build.Add(start, build.Gather(node.input(1), [k]))
        parts.append(build.Slice(node.input(0), start, end, [axis]))
        start = end
    return parts


@says("Set num_outputs of Split where there are no sizes")
def parts_to_number(node: Node) -> None:
    if node.input(1):
        return
    parts = len(node.outputs)
    if node.scope.size(node.input(0), node.attributes.get("axis", 0)) == 0:  # onnxruntime refuses num_outputs there
        node.set_input(1, node.build.constant(tensors.int64s([0] * parts)))
    else:
        node.attributes["num_outputs"] = parts


@says("Replaced num_outputs by sizes")
def number_to_parts(node: Node) -> None:
    parts = node.attributes.pop("num_outputs", None)
    if parts is None or parts == 1:
        return
    if parts != len(node.outputs):
        raise CannotConvert(node, f"num_outputs={parts}, but the node has {len(node.outputs)} outputs")
    build, size = node.build, size_along(node, node.attributes.get("axis", 0))
    if isinstance(size, int):
        part = -(-size // parts)
        if size != part * parts:
            sizes = [min(max(size - k * part, 0), part) for k in range(parts)]
            node.set_input(1, build.constant(tensors.int64s(sizes)))
        return
    part = build.Div(build.Add(size, parts - 1), parts)
    left = build.Sub(size, build.Mul(part, list(range(parts))))
    node.set_input(1, build.Min(build.Max(left, 0), part))


changed("Split", 2, Pair(up=axis_and_sizes_are_told, down=parts_of_doubles))
changed("Split", 11, Pair(down=nonnegative_axis(default=0)))
changed("Split", 13, Pair(up=sizes_to_input, down=sizes_to_attribute))
changed("Split", 18, Pair(up=parts_to_number, down=number_to_parts))

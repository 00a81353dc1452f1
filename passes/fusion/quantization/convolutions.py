"""ConvInteger as it is written out: convolutions of floats, which are exact as long as images and kernels are small."""

from __future__ import annotations

from typing import NamedTuple

from opshift.passes.fusion.quantization.operands import Operands, input_at, value_of
from opshift.passes.model.messages import NodeProto, TensorProto

T = TensorProto
NIBBLE = 16


class Pieces(NamedTuple):
    """The image, the kernel and their zero points, one of the convolutions, and the nodes that go with it."""

    inputs: list[str]
    conv: NodeProto
    inside: list[int]


def convolve(of: Operands, root: NodeProto) -> Pieces | None:
    """A sum of convolutions of all parts of an image with all parts of a kernel, each times what both are worth."""
    terms = _terms(of, root.output[0], top=True)
    if not terms:
        return None
    conv = terms[0][0]
    names = [_whole(of, conv.input[side]) for side in (0, 1)]
    found = [of.wide(name, T.FLOAT) for name in names]
    worth = {(_part(of, one.input[0], names[0]), _part(of, one.input[1], names[1])): of_it for one, of_it, _ in terms}
    parts = [{pair[side] for pair in worth} for side in (0, 1)]
    whole = all(sides in ({1}, {1, NIBBLE}) or sides == {0} for sides in parts)
    if not whole or len(terms) != len(worth) or len(worth) != len(parts[0]) * len(parts[1]):
        return None
    if any(max(image, 1) * max(kernel, 1) != times for (image, kernel), times in worth.items()):
        return None
    alike = [{a.name: value_of(one, a.name, None) for a in one.attribute} for one, _, _ in terms]
    if None in found or any(input_at(one, 2) for one, _, _ in terms) or any(of_it != alike[0] for of_it in alike):
        return None
    (x, x_zero), (w, w_zero) = (row for row in found if row is not None)
    return Pieces([x, w, x_zero, w_zero], conv, [at for *_, inside in terms for at in inside])


def _terms(of: Operands, name: str, *, top: bool = False) -> list[tuple[NodeProto, int, list[int]]]:
    """The convolutions that a value is the sum of, what each counts for, and the nodes between."""
    if not top and not of.alone(name):
        return []
    own = [] if top else [of.uses.makers[name]] if name in of.uses.makers else []
    if (node := of.maker_if(name, "Add")) is not None:
        both = [_terms(of, part) for part in node.input]
        rows = [row for part in both for row in part] if all(both) else []
        return [(conv, worth, [*inside, *own] if k == 0 else inside) for k, (conv, worth, inside) in enumerate(rows)]
    worth = 1
    if (node := of.maker_if(name, "Mul")) is not None:
        times = of.number(node.input[1])
        if times is None or not of.alone(node.input[0]):
            return []
        worth, name = int(times), node.input[0]
        own += [of.uses.makers[name]] if name in of.uses.makers else []
    cast = of.maker_if(name, "Cast")
    if cast is None or value_of(cast, "to", 0) != T.INT32 or not of.alone(cast.input[0]):
        return []
    conv = of.maker_if(cast.input[0], "Conv")
    return [] if conv is None else [(conv, worth, [*own, of.uses.makers[cast.input[0]]])]


def _whole(of: Operands, name: str) -> str:
    """What a value is the upper or the lower half of; the value itself if it is none."""
    node = of.maker_if(name, "Floor", "Sub")
    if node is not None and node.op_type == "Floor":
        quotient = of.maker_if(node.input[0], "Div")
        return quotient.input[0] if quotient is not None and of.number(quotient.input[1]) == NIBBLE else name
    if node is not None and (product := of.maker_if(node.input[1], "Mul")) is not None:
        return node.input[0] if _whole(of, product.input[0]) == node.input[0] else name
    return name


def _part(of: Operands, name: str, whole: str) -> int:
    """16 for the upper half of a value, 1 for the lower one, 0 for all of it, -1 for anything else."""
    if name == whole:
        return 0
    if _whole(of, name) != whole:
        return -1
    return NIBBLE if of.maker_if(name, "Floor") is not None else 1

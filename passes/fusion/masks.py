"""What may stand in a mask that is added to scores: the lowest number of its type is taken for -inf by runtimes.

Softmax of a row of nothing but lowest numbers is a mean. onnxruntime's Attention takes them for -inf, and the row for
one that may attend no key, which yields 0; it does so with no other number, not even with the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import reduce
from itertools import product

from opshift.passes.analysis.scope import Scope
from opshift.passes.model import tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import NodeProto, TensorProto, normalize_domain
from opshift.passes.rewrite.builder import Builder

T = TensorProto
_MOST = 1 << 20  # elements of a constant that is read
_FAR = 24  # nodes that a mask is followed through
_PRECISION: dict[int, int] = {T.DOUBLE: 53, T.FLOAT: 24, T.FLOAT16: 11, T.BFLOAT16: 8}
_BOTTOM: dict[int, float] = {
    T.DOUBLE: -(2.0 - 2.0**-52) * 2.0**1023,
    T.FLOAT: -(2.0 - 2.0**-23) * 2.0**127,
    T.FLOAT16: -65504.0,
    T.BFLOAT16: -(2.0 - 2.0**-7) * 2.0**127,
}
_KEPT = "Cast Identity Expand Unsqueeze Squeeze Reshape Transpose Slice Gather GatherND Flatten Tile"
_MOVING = frozenset(_KEPT.split())
"""Operators whose result has no elements but those of their first input."""
_CHOOSING = frozenset(("Where", "Concat"))


class Element(Enum):
    """What an element of a value may be."""

    TAME = "a number that vanishes when it is added to the lowest one"
    FINITE = "another number, more than the lowest one"
    LOWEST = "the lowest number"
    EXCLUDED = "-inf"
    WILD = "anything"


Elements = frozenset[Element]
_TAME, _FINITE, _LOWEST, _EXCLUDED, _WILD = (frozenset((element,)) for element in Element)


class MaskRemedy(Enum):
    """What makes runtimes agree on a mask."""

    NONE = "they do"
    RAISED = "the lowest number becomes the next one"
    NO = "nothing: rows may hold the lowest number and -inf"


def remedy(scope: Scope, parts: Iterable[str], elem_type: int) -> MaskRemedy:
    """What the mask needs that is the sum of some values."""
    names = list(parts)
    walk = _ConstantWalk(elem_type)
    held = reduce(_sum, [walk.elements(scope, name, _FAR) for name in names])
    if Element.LOWEST not in held or (len(names) == 1 and _attends_somewhere(scope, names[0], elem_type)):
        return MaskRemedy.NONE
    return MaskRemedy.NO if held & (_EXCLUDED | _WILD) else MaskRemedy.RAISED


def raise_lowest(build: Builder, name: str, elem_type: int) -> str:
    """A mask with the next number for the lowest one."""
    step = 2.0 ** (1 - _PRECISION[elem_type])
    return str(build.Max(name, build.constant(_BOTTOM[elem_type] * (1 - step / (2 - step)), elem_type, "lowest")))


class _ConstantWalk:
    """Follows a value to the constants that it is made of."""

    def __init__(self, elem_type: int):
        self._kind = elem_type
        self._known: dict[str, Elements] = {}

    def elements(self, scope: Scope, name: str, depth: int) -> Elements:
        if name not in self._known:
            self._known[name] = self._follow(scope, name, depth)
        return self._known[name]

    def _follow(self, scope: Scope, name: str, depth: int) -> Elements:
        held = scope.tensor(name, _MOST)
        if held is not None:
            return _of_array(tensors.array(held), self._kind)
        owner = scope.owner(name)
        node = None if owner is None else owner.maker(name)
        if owner is None or node is None or normalize_domain(node.domain) or name != node.output[0] or not depth:
            return _WILD
        return self._follow_node(owner, node, depth - 1)

    def _follow_node(self, scope: Scope, node: NodeProto, depth: int) -> Elements:
        op = node.op_type
        if op == "ConstantOfShape":
            value = next((a.t for a in node.attribute if a.name == "value"), None)
            return _TAME if value is None else _of_array(tensors.array(value), self._kind)
        if op == "Cast" and scope.elem_type(node.input[0]) != self._kind:
            return _TAME if scope.elem_type(node.input[0]) == T.BOOL else _WILD
        names = node.input[1:] if op == "Where" else node.input[:1] if op in _MOVING else node.input
        operands = [self.elements(scope, name, depth) for name in names if name]
        if op in _CHOOSING or op in _MOVING:
            return frozenset().union(*operands)
        if op == "Trilu":
            return operands[0] | _TAME
        if op == "Add":
            return reduce(_sum, operands)
        if op == "Max" and any(operand <= _TAME | _FINITE for operand in operands):
            return _FINITE
        return _WILD | _LOWEST if any(Element.LOWEST in operand for operand in operands) else _WILD


def _of_array(values: np.ndarray | None, elem_type: int) -> Elements:
    if values is None or values.dtype.kind in "iubOSU":
        return _WILD
    numbers, bottom = values.astype(np.float64), _BOTTOM[elem_type]
    tame = np.abs(numbers) < -bottom * 2.0 ** -(_PRECISION[elem_type] + 1)
    finite = (numbers > bottom) & (numbers < np.inf) & ~tame
    lowest, excluded = numbers == bottom, numbers == -np.inf
    wild = ~(tame | finite | lowest | excluded)
    masks = zip((tame, finite, lowest, excluded, wild), Element, strict=True)
    return frozenset(element for which, element in masks if which.any())


def _sum(a: Elements, b: Elements) -> Elements:
    return frozenset().union(*(_SUMS.get(frozenset(pair), frozenset(pair) | _WILD) for pair in product(a, b)))


_SUMS: dict[Elements, Elements] = {
    _TAME: _TAME,
    _TAME | _FINITE: _FINITE,
    _TAME | _LOWEST: _LOWEST,
    _LOWEST: _EXCLUDED,
    **{_EXCLUDED | other: _EXCLUDED for other in (_TAME, _FINITE, _LOWEST, _EXCLUDED)},
}
"""What the sum of two elements is; of any others, it may be anything."""


def _attends_somewhere(scope: Scope, name: str, elem_type: int) -> bool:
    """Whether each row of a constant mask holds something more than the lowest number."""
    held = scope.tensor(name, _MOST)
    values = None if held is None else tensors.array(held)
    return (
        values is not None
        and values.ndim > 0
        and bool((values.astype(np.float64) > _BOTTOM[elem_type]).any(axis=-1).all())
    )

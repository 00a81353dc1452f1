"""Reads the nodes of a body as terms (`algebra`). The same reader is run over models and over definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import inf, prod
from typing import Any

from opshift.passes import numbers, schemas
from opshift.passes.algebra import LEAF, NUMBER, ONES, TENSOR, Key, Terms, clip, mean
from opshift.passes.names import subgraphs
from opshift.passes.protos import ELEMENT_TYPES, NodeProto, TensorProto, default_domain
from opshift.passes.scope import Scope
from opshift.passes.view import attribute_value

T = TensorProto
FLOATS = frozenset((T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16))
SPELLED_BEFORE = 6
"""The opset from which on Cast gives its type by number."""
PER_AXIS = 13
"""The opset from which on Softmax and its kin work along one axis; before, on all axes from there on as one."""

_DRAWING = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")
)
_COMMUTATIVE = frozenset(("Equal", "And", "Or", "Xor"))

Rule = Callable[["Reader", NodeProto], "int | None"]


class Reader:
    """The terms of the values of one body, node by node in order."""

    def __init__(self, terms: Terms, scope: Scope, outer: Reader | None = None):
        self.terms = terms
        self.scope = scope
        self.opset = scope.opset
        self._outer = outer
        self._terms: dict[str, int] = {}
        self._kinds: dict[str, int] = {}

    def term(self, name: str) -> int:
        """The term of a value, which is a leaf if no node was read that makes it."""
        found = self._terms.get(name)
        if found is None:
            found = self._terms[name] = self._given(name)
        return found

    def _given(self, name: str) -> int:
        owner = self.scope.owner(name)
        if owner is not self.scope and owner is not None and self._outer is not None:
            return self._outer.term(name)
        held = owner.initializers.get(name) if owner is not None else None
        found = None if held is None else self._constant(held)
        return self.terms.of(LEAF, id(owner), name) if found is None else found

    def bind(self, name: str, term: int) -> None:
        self._terms[name] = term

    def kind(self, name: str) -> int:
        """The element type of a value; 0 where it is unknown."""
        found = self._kinds.get(name)
        if found is None:
            found = self._kinds[name] = self.scope.elem_type(name)
        return found

    def rank(self, name: str) -> int | None:
        shape = self.scope.shape(name)
        return None if shape is None else len(shape)

    def read(self, node: NodeProto) -> None:
        """Give the outputs of a node their terms. Those that it reads come first."""
        if default_domain(node.domain):
            return
        rule = RULES.get(node.op_type)
        term = rule(self, node) if rule is not None else None
        if term is None:
            self._opaque(node)
        else:
            self._terms[node.output[0]] = term
        if kind := self._kind_made(node):
            self._kinds[node.output[0]] = kind

    def _kind_made(self, node: NodeProto) -> int:
        if node.op_type == "Cast":
            return _integer(node, "to", 0) if self.opset >= SPELLED_BEFORE else 0
        like, kind = _typed(node.op_type, self.opset)
        return self.kind(node.input[like]) if 0 <= like < len(node.input) else kind

    def _opaque(self, node: NodeProto) -> None:
        op = node.op_type
        if op in _DRAWING or any(a.ref_attr_name for a in node.attribute) or any(True for _ in subgraphs(node)):
            return
        parameters = self.parameters(node)
        operands = [self.term(name) if name else -1 for name in node.input]
        while operands and operands[-1] == -1:
            operands.pop()
        if op in _COMMUTATIVE:
            operands.sort()
        absent = self.terms.of(LEAF, "absent")
        operands = [absent if term == -1 else term for term in operands]
        for index, name in enumerate(node.output):
            if name:
                place = (("output", index),) if index else ()
                self._terms[name] = self.terms.op(op, parameters + place, *operands)

    def parameters(self, node: NodeProto) -> Key:
        """The attributes that are not at their defaults, by name."""
        if not node.attribute:
            return ()
        defaults = _defaults(node.op_type, self.opset)
        return tuple(
            sorted((a.name, _plain(attribute_value(a))) for a in node.attribute if defaults.get(a.name) != _bytes(a))
        )

    # --- constants ------------------------------------------------------------------------------------------

    def _constant(self, held: TensorProto) -> int | None:
        dims = held.dims
        if prod(dims) > numbers.FEW:
            return None
        values = numbers.read(held)
        if values is None:
            return None
        if len(values) == 1 and held.data_type != T.BOOL:
            value = float(values[0])
            if value == values[0]:
                return self.terms.of(ONES, value, len(dims)) if dims else self.terms.number(value)
        return self.terms.of(TENSOR, held.data_type in FLOATS or held.data_type, tuple(dims), tuple(values))

    def constant(self, node: NodeProto) -> int | None:
        from opshift.passes.constants import of_constant

        held = of_constant(node)
        if held is None:
            return self.terms.of(LEAF, id(self.scope), node.output[0])
        self._kinds[node.output[0]] = held.data_type
        found = self._constant(held)
        return self.terms.of(LEAF, id(self.scope), node.output[0]) if found is None else found

    def ints(self, name: str) -> tuple[int, ...] | None:
        """The elements of a constant of integers that stands in the model."""
        key = self.terms.keys[self.term(name)]
        if key[0] == TENSOR:
            return key[3] if key[1] is not True else None
        return (int(key[1]),) if key[0] in (NUMBER, ONES) else None

    def operand(self, name: str, *others: str) -> int:
        """The term of an operand that is broadcast with others: one that adds no axis to them is a number."""
        found = self.term(name)
        key = self.terms.keys[found]
        if key[0] != ONES:
            return found
        if any((rank := self.rank(other)) is not None and rank >= key[2] for other in others):
            return self.terms.number(key[1])
        return found

    def operands(self, names: Sequence[str]) -> list[int]:
        found = [self.term(name) for name in names]
        kinds = [self.terms.keys[term][0] for term in found]
        if ONES not in kinds or all(kind in (NUMBER, ONES) for kind in kinds):
            return found
        return [self.operand(name, *names[:i], *names[i + 1 :]) for i, name in enumerate(names)]

    def axes(self, node: NodeProto) -> tuple[int, ...] | None:
        """The axes of a reduction, negative and ascending; None where they are not known."""
        name = node.input[1] if len(node.input) > 1 else ""
        found = self.ints(name) if name else next((tuple(a.ints) for a in node.attribute if a.name == "axes"), ())
        rank = self.rank(node.input[0])
        if found is None or (not found and (_integer(node, "noop_with_empty_axes", 0) or rank is None)):
            return None
        if not found and rank is not None:
            return tuple(range(-rank, 0))
        if rank is None and any(axis >= 0 for axis in found):
            return None
        return tuple(sorted({axis - (rank or 0) if axis >= 0 else axis for axis in found}))


@cache
def _defaults(op: str, opset: int) -> dict[str, bytes]:
    schema = schemas.schema("", op, opset)
    return {n: _bytes(a.default) for n, a in schema.attributes.items() if a.default} if schema else {}


@cache
def _typed(op: str, opset: int) -> tuple[int, int]:
    """The input whose element type an operator's result has, else -1; and the type that it always has, else 0."""
    schema = schemas.schema("", op, opset)
    made = schema.output(0) if schema else None
    if schema is None or made is None:
        return -1, 0
    like = next((i for i, formal in enumerate(schema.inputs) if formal.type == made.type), -1)
    return like, ELEMENT_TYPES.get(next(iter(made.types)), 0) if len(made.types) == 1 else 0


def _bytes(attribute: Any) -> bytes:
    text: bytes = attribute.SerializeToString()
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    return value.SerializeToString(deterministic=True)


def _integer(node: NodeProto, name: str, default: int) -> int:
    return next((a.i for a in node.attribute if a.name == name), default)


# --- rules --------------------------------------------------------------------------------------------------


def _same(reader: Reader, node: NodeProto) -> int:
    return reader.term(node.input[0])


def _kept(reader: Reader, node: NodeProto) -> int | None:
    """Dropout that drops nothing."""
    training = node.input[2] if len(node.input) > 2 else ""
    if reader.opset < 7 or (training and reader.terms.keys[reader.term(training)][-1] != (0,)):
        return None
    return reader.term(node.input[0])


def _cast(reader: Reader, node: NodeProto) -> int | None:
    """Widths of floats differ in rounding alone."""
    to, kind = _integer(node, "to", 0), reader.kind(node.input[0])
    return reader.term(node.input[0]) if to and (kind == to or (kind in FLOATS and to in FLOATS)) else None


def _cast_like(reader: Reader, node: NodeProto) -> int | None:
    to, kind = (reader.kind(name) for name in node.input[:2])
    return reader.term(node.input[0]) if to and (kind == to or (kind in FLOATS and to in FLOATS)) else None


def _added(reader: Reader, node: NodeProto) -> int | None:
    if not _arithmetic(reader, node):
        return None
    found, *more = reader.operands(node.input)
    for term in more:
        found = reader.terms.add(found, term)
    return found


def _subtracted(reader: Reader, node: NodeProto) -> int | None:
    return reader.terms.add(*reader.operands(node.input), sign=-1.0) if _arithmetic(reader, node) else None


def _multiplied(reader: Reader, node: NodeProto) -> int | None:
    return reader.terms.mul(*reader.operands(node.input)) if _arithmetic(reader, node) else None


def _divided(reader: Reader, node: NodeProto) -> int | None:
    if reader.kind(node.input[0]) not in FLOATS or reader.opset < 7:
        return None
    a, b = reader.operands(node.input)
    return None if reader.terms.value(b) == 0 else reader.terms.mul(a, reader.terms.power(b, -1.0))


def _arithmetic(reader: Reader, node: NodeProto) -> bool:
    """Whether operands are broadcast as numpy does, and hold numbers that can be computed with."""
    return reader.opset >= 7 and all(reader.kind(name) in FLOATS for name in node.input[:1])


def _powered(exponent: float) -> Rule:
    def rule(reader: Reader, node: NodeProto) -> int | None:
        return reader.terms.power(reader.term(node.input[0]), exponent) if _floats(reader, node) else None

    return rule


def _raised(reader: Reader, node: NodeProto) -> int | None:
    exponent = reader.terms.value(reader.operand(node.input[1], node.input[0])) if _floats(reader, node) else None
    if exponent not in (2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 1.0):
        return None
    return reader.terms.power(reader.term(node.input[0]), exponent)


def _floats(reader: Reader, node: NodeProto) -> bool:
    return reader.kind(node.input[0]) in FLOATS


def _negated(reader: Reader, node: NodeProto) -> int | None:
    return reader.terms.scaled(reader.term(node.input[0]), -1.0) if _floats(reader, node) else None


def _reduced(make: Callable[[Reader, Key, int, NodeProto], int]) -> Rule:
    def rule(reader: Reader, node: NodeProto) -> int | None:
        axes = reader.axes(node)
        if axes is None or not _floats(reader, node):
            return None
        made = make(reader, (("axes", axes),), reader.term(node.input[0]), node)
        return made if _integer(node, "keepdims", 1) else reader.terms.op("Squeeze", (("axes", axes),), made)

    return rule


def _total(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    made = reader.terms.op("Total", axes, x)
    shape = reader.scope.shape(node.input[0])
    if shape is not None and made not in reader.terms.sizes:
        sizes = [shape[axis] for axis in axes[0][1]]
        if all(isinstance(size, int) for size in sizes):
            reader.terms.sizes[made] = prod(size for size in sizes if isinstance(size, int))
    return made


def _mean(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return mean(reader.terms, axes, x)


def _squares(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return _total(reader, axes, reader.terms.power(x, 2.0), node)


def _norm(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return reader.terms.power(_squares(reader, axes, x, node), 0.5)


def _absolutes(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return _total(reader, axes, reader.terms.op("Abs", (), x), node)


def _logarithm(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return reader.terms.op("Log", (), _total(reader, axes, x, node))


def _largest(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return reader.terms.op("Largest", axes, x)


def _global_mean(reader: Reader, node: NodeProto) -> int | None:
    rank = reader.rank(node.input[0])
    if rank is None or rank < 3:
        return None
    return mean(reader.terms, (("axes", tuple(range(2 - rank, 0))),), reader.term(node.input[0]))


def _squeezed(reader: Reader, node: NodeProto) -> int | None:
    """Squeeze and Unsqueeze of the same axes undo each other."""
    axes = reader.axes(node)
    return reader.terms.op("Squeeze", (("axes", axes),), reader.term(node.input[0])) if axes else None


def _unsqueezed(reader: Reader, node: NodeProto) -> int | None:
    name = node.input[1] if len(node.input) > 1 else ""
    axes = reader.ints(name) if name else next((tuple(a.ints) for a in node.attribute if a.name == "axes"), None)
    rank, terms, inner = reader.rank(node.input[0]), reader.terms, reader.term(node.input[0])
    if not axes:
        return None
    if any(axis >= 0 for axis in axes):
        if rank is None:
            return None
        axes = tuple(axis - rank - len(axes) if axis >= 0 else axis for axis in axes)
    axes = tuple(sorted(axes))
    key = terms.keys[inner]
    if terms.is_op(inner, "Squeeze") and key[2] == (("axes", axes),):
        return int(key[3][0])
    return terms.op("Unsqueeze", (("axes", axes),), inner)


def _bounded(reader: Reader, node: NodeProto) -> int | None:
    """Clip, whose bounds were attributes below opset 11."""
    if not _floats(reader, node):
        return None
    given = {a.name: a.f for a in node.attribute}
    bounds: list[float | None] = [given.get("min", -inf), given.get("max", inf)]
    for index, name in enumerate(node.input[1:3]):
        if name:
            key = reader.terms.keys[reader.term(name)]
            bounds[index] = key[1] if key[0] in (NUMBER, ONES) else None
    low, high = bounds
    if low is None or high is None or not low <= high:
        return None
    return clip(reader.terms, reader.term(node.input[0]), low, high)


def _extreme(largest: bool) -> Rule:
    def rule(reader: Reader, node: NodeProto) -> int | None:
        if len(node.input) != 2 or not _floats(reader, node) or reader.opset < 8:
            return None
        a, b = reader.operands(node.input)
        for x, bound in ((a, b), (b, a)):
            value = reader.terms.value(bound)
            if value is not None:
                return clip(reader.terms, x, *((value, inf) if largest else (-inf, value)))
        return reader.terms.op("Max" if largest else "Min", (), *sorted((a, b)))

    return rule


def _rectified(reader: Reader, node: NodeProto) -> int | None:
    return clip(reader.terms, reader.term(node.input[0]), 0.0, inf) if _floats(reader, node) else None


def _hard(reader: Reader, node: NodeProto) -> int | None:
    """HardSigmoid is alpha * x + beta between 0 and 1, HardSwish x times that of x / 6 + 0.5."""
    if not _floats(reader, node):
        return None
    terms, x, given = reader.terms, reader.term(node.input[0]), {a.name: a.f for a in node.attribute}
    swish = node.op_type == "HardSwish"
    slope = 1 / 6 if swish else numbers.shortest(given.get("alpha", 0.2))
    bent = clip(terms, terms.add(terms.scaled(x, slope), terms.number(given.get("beta", 0.5))), 0.0, 1.0)
    return terms.mul(x, bent) if swish else bent


def _swapped(op: str) -> Rule:
    def rule(reader: Reader, node: NodeProto) -> int:
        a, b = reader.operands(node.input)
        return reader.terms.op(op, (), b, a)

    return rule


def _compared(reader: Reader, node: NodeProto) -> int:
    return reader.terms.op(node.op_type, (), *reader.operands(node.input))


def _chosen(reader: Reader, node: NodeProto) -> int:
    return reader.terms.op("Where", (), *reader.operands(node.input))


def _softmax(reader: Reader, node: NodeProto) -> int | None:
    rank = reader.rank(node.input[0])
    axis = _integer(node, "axis", -1 if reader.opset >= PER_AXIS else 1)
    if axis >= 0:
        if rank is None:
            return None
        axis -= rank
    if reader.opset < PER_AXIS and axis != -1:
        return None
    return reader.terms.op("Softmax", (("axes", (axis,)),), reader.term(node.input[0]))


RULES: dict[str, Rule] = {
    "Identity": _same,
    "Dropout": _kept,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Constant": Reader.constant,
    "Add": _added,
    "Sum": _added,
    "Sub": _subtracted,
    "Mul": _multiplied,
    "Div": _divided,
    "Neg": _negated,
    "Reciprocal": _powered(-1.0),
    "Sqrt": _powered(0.5),
    "Pow": _raised,
    "ReduceMean": _reduced(_mean),
    "ReduceSum": _reduced(_total),
    "ReduceSumSquare": _reduced(_squares),
    "ReduceL2": _reduced(_norm),
    "ReduceL1": _reduced(_absolutes),
    "ReduceLogSum": _reduced(_logarithm),
    "ReduceMax": _reduced(_largest),
    "GlobalAveragePool": _global_mean,
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
    "Clip": _bounded,
    "Max": _extreme(largest=True),
    "Min": _extreme(largest=False),
    "Relu": _rectified,
    "HardSigmoid": _hard,
    "HardSwish": _hard,
    "Less": _compared,
    "Greater": _swapped("Less"),
    "Where": _chosen,
    "Softmax": _softmax,
}

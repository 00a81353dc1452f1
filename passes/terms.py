"""Reads the nodes of a body as terms (`algebra`). The same reader is run over models and over definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

from opshift.passes import numbers, schemas
from opshift.passes.algebra import LEAF, NUMBER, ONES, TENSOR, VECTOR, Key, Terms
from opshift.passes.names import subgraphs
from opshift.passes.protos import ELEMENT_TYPES, NodeProto, TensorProto, default_domain
from opshift.passes.scope import Dim, Scope
from opshift.passes.view import attribute_value

T = TensorProto
FLOATS = frozenset((T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16))
SPELLED_BEFORE = 6
"""The opset from which on Cast gives its type by number."""
PER_AXIS = 13
"""The opset from which on Softmax and its kin work along one axis; before, on all axes from there on as one."""

_DRAWING = frozenset(  # what Dropout drops, its rule says
    ("Dropout", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")
)
_SAME = "Cast Dropout Gelu Identity LayerNormalization Neg Not Sigmoid Softmax Tanh Trilu"
_KEEPING = frozenset(_SAME.split())
_BROADCAST = frozenset(("Add", "Sub", "Mul", "Div", "Where", "Pow", "Equal", "Less", "And", "Or"))
_FAR = 24  # nodes that a shape is followed through
_UNCHANGED = frozenset(("Equal", "Cos", "Sin"))
"""Operators whose rules are for special cases alone; what another rule does not take apart is none of its results."""
_COMMUTATIVE = frozenset(("Equal", "And", "Or", "Xor"))

Dims = tuple[int, ...]
"""The terms of dimensions."""
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
        self._dims: dict[str, tuple[int, ...] | None] = {}

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
        held = owner.held(name, numbers.FEW) if owner is not None else None
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
        rule = None if self.scope.is_open(node) else _rules().get(node.op_type)
        term = rule(self, node) if rule is not None else None
        if node.op_type == "Split" and (found := self._parts(node)) is not None:
            self._terms.update(zip(node.output, found, strict=False))
        elif term is None:
            self._opaque(node)
        else:
            self._terms[node.output[0]] = term
        if kind := self._kind_made(node):
            self._kinds.update(dict.fromkeys(node.output if node.op_type == "Split" else node.output[:1], kind))

    def _kind_made(self, node: NodeProto) -> int:
        if node.op_type == "Cast":
            return integer(node, "to", 0) if self.opset >= SPELLED_BEFORE else 0
        like, kind = _typed(node.op_type, self.opset)
        return self.kind(node.input[like]) if 0 <= like < len(node.input) else kind

    def _parts(self, node: NodeProto) -> list[int] | None:
        from opshift.passes.terms_rotary import parts

        return parts(self, node)

    def _opaque(self, node: NodeProto) -> None:
        op = node.op_type
        if op in _DRAWING or self.scope.is_open(node) or any(True for _ in subgraphs(node)):
            return
        parameters = self.parameters(node)
        operands = [self.term(name) if name else -1 for name in node.input]
        while operands and operands[-1] == -1:
            operands.pop()
        if op in _COMMUTATIVE:
            operands.sort()
        absent = self.terms.of(LEAF, "absent")
        title = f"{op} as written" if op in _rules() and op not in _UNCHANGED else op
        operands = [absent if term == -1 else term for term in operands]
        for index, name in enumerate(node.output):
            if name:
                place = (("output", index),) if index else ()
                self._terms[name] = self.terms.op(title, parameters + place, *operands)

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

    def constant(self, node: NodeProto) -> int:
        """The term of what a Constant node holds."""
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
        return (int(key[1]),) if key[0] in (NUMBER, ONES) and key[1].is_integer() else None

    def elements(self, name: str) -> tuple[int, ...] | None:
        """The terms of the elements of a vector of integers: a shape, axes."""
        key = self.terms.keys[self.term(name)]
        if key[0] == VECTOR:
            return tuple(key[1])
        if key[0] == ONES and key[2] == 1:
            return (self.terms.number(key[1]),)
        if key[0] == TENSOR and len(key[2]) == 1 and key[1] is not True:
            return tuple(map(self.terms.number, key[3]))
        return None

    def dims(self, name: str, depth: int = _FAR) -> tuple[int, ...] | None:
        """The terms of the dimensions of a value; None where its rank is unknown."""
        if name not in self._dims:
            shape = self.scope.shape(name)
            known = shape is not None and all(isinstance(dim, int) for dim in shape)
            made = self._dims_made(name, depth) if depth and not known else None
            if shape is not None:
                stated = tuple(self._dim(name, axis, dim) for axis, dim in enumerate(shape))
                like = made if made is not None and len(made) == len(stated) else stated
                made = tuple(a if self.terms.value(a) is not None else b for a, b in zip(stated, like, strict=True))
            if made is not None:  # two that are computed are not the same
                computed = self.terms.number(-1)
                made = tuple(self._dim(name, axis, None) if dim == computed else dim for axis, dim in enumerate(made))
            self._dims[name] = made
        return self._dims[name]

    def _dims_made(self, name: str, depth: int) -> tuple[int, ...] | None:
        """The dimensions that the node gives which makes a value."""
        node = self.scope.maker(name)
        if node is None or default_domain(node.domain) or self.scope.is_open(node):
            return None
        first = self.dims(node.input[0], depth - 1) if node.input else None
        if node.op_type == "Reshape" and len(node.input) > 1:
            target = self.elements(node.input[1])
            return None if target is None else self.target(node, target, first)
        if node.op_type == "Transpose" and first is not None:
            perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), list(range(len(first)))[::-1])
            return tuple(first[axis] for axis in perm) if sorted(perm) == list(range(len(first))) else None
        if node.op_type == "Slice" and first is not None:
            return self._sliced(node, first)
        if node.op_type == "SequenceAt":
            return self._piece(node.input[0], depth)
        if node.op_type == "Unsqueeze" and first is not None:
            return self._unsqueezed(node, first)
        if node.op_type == "Expand":
            return self._broadcast([first, self.elements(node.input[1])])
        if node.op_type in _BROADCAST:
            return self._broadcast([self.dims(operand, depth - 1) for operand in node.input])
        return first if node.op_type in _KEEPING else None

    def target(
        self, node: NodeProto, wanted: tuple[int, ...], before: tuple[int, ...] | None
    ) -> tuple[int, ...] | None:
        """The dimensions that a Reshape asks for; -1 where one is to be computed."""
        target = list(wanted)
        for axis, element in enumerate(wanted):
            if self.terms.value(element) == 0 and not integer(node, "allowzero", 0):
                if before is None or axis >= len(before):
                    return None
                target[axis] = before[axis]
        computed = [axis for axis, element in enumerate(target) if self.terms.value(element) == -1]
        if len(computed) == 1 and before is not None:
            rest = self._quotient(before, [element for element in target if self.terms.value(element) != -1])
            if rest is not None:
                target[computed[0]] = rest
        return tuple(target)

    def _quotient(self, before: Dims, after: list[int]) -> int | None:
        """The dimension that is left of some when others are taken out; None if that is no single one."""
        left, size = list(before), 1
        for dim in after:
            if dim in left:
                left.remove(dim)
            elif (value := self.terms.value(dim)) is not None:
                size *= int(value)
            else:
                return None
        values = [self.terms.value(dim) for dim in left]
        others = [dim for dim, value in zip(left, values, strict=True) if value is None]
        whole = prod(int(value) for value in values if value is not None)
        if not size or whole % size or len(others) > 1 or (others and whole != size):
            return None
        return others[0] if others else self.terms.number(whole // size)

    def _sliced(self, node: NodeProto, before: Dims) -> Dims | None:
        """The dimensions of a Slice with known bounds; those along unknown axes stay unknown."""
        bounds = [self.ints(name) if name else None for name in node.input[1:]]
        if len(bounds) < 3 or any(bound is None or len(bound) != 1 for bound in bounds):
            return None
        start, end, axis, *steps = (bound[0] for bound in bounds if bound)
        size = self.terms.value(before[axis])
        if size is None or steps not in ([], [1]):
            return None
        made = list(before)
        made[axis] = self.terms.number(len(range(int(size))[start:end]))
        return tuple(made)

    def _piece(self, sequence: str, depth: int) -> Dims | None:
        """The dimensions of each element of a sequence that a value was split into, if they are the same."""
        maker = self.scope.maker(sequence)
        if maker is None or maker.op_type != "SplitToSequence" or default_domain(maker.domain) or len(maker.input) < 2:
            return None
        before, size = self.dims(maker.input[0], depth - 1), self.terms.value(self.term(maker.input[1]))
        if before is None or size is None:
            return None
        axis, made = integer(maker, "axis", 0), list(before)
        whole = self.terms.value(before[axis])
        if whole is None or size <= 0 or whole % size:
            return None
        made[axis] = self.terms.number(size)
        return tuple(made)

    def _unsqueezed(self, node: NodeProto, before: Dims) -> Dims | None:
        axes = self.ints(node.input[1]) if len(node.input) > 1 else None
        if axes is None:
            axes = next((tuple(a.ints) for a in node.attribute if a.name == "axes"), None)
        rank = len(before) + len(axes or ())
        places = {axis % rank for axis in axes or () if -rank <= axis < rank}
        if not places or axes is None or len(places) != len(axes):
            return None
        left = iter(before)
        return tuple(self.terms.number(1) if axis in places else next(left) for axis in range(rank))

    def _broadcast(self, shapes: list[tuple[int, ...] | None]) -> tuple[int, ...] | None:
        rank, one = max((len(shape) for shape in shapes if shape is not None), default=0), self.terms.number(1)
        made = [one] * rank
        for shape in shapes:
            if shape is None:
                return None
            for axis, dim in enumerate(shape, rank - len(shape)):
                if dim != one and made[axis] not in (one, dim):
                    return None
                made[axis] = dim if dim != one else made[axis]
        return tuple(made)

    def shape(self, name: str) -> list[Dim] | None:
        """The dimensions of a value, as far as they are known to be the same as others: numbers, or names of terms."""
        return self._spelled(self.dims(name))

    def broadcast(self, *names: str) -> list[Dim] | None:
        """The same for what values are broadcast to."""
        return self._spelled(self._broadcast([self.dims(name) for name in names]))

    def _spelled(self, dims: Dims | None) -> list[Dim] | None:
        if dims is None:
            return None
        values = [self.terms.value(dim) for dim in dims]
        return [
            f"#{dim}" if value is None else int(value) if value >= 0 else None
            for dim, value in zip(dims, values, strict=True)
        ]

    def _dim(self, name: str, axis: int, dim: Dim) -> int:
        if isinstance(dim, int):
            return self.terms.number(dim)
        if dim is not None:
            return self.terms.of(LEAF, "symbol", dim)
        return self.terms.op("Dim", (("axis", axis),), self.term(name))

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
        if found is None or (not found and (integer(node, "noop_with_empty_axes", 0) or rank is None)):
            return None
        if not found and rank is not None:
            return tuple(range(-rank, 0))
        if rank is None and any(axis >= 0 for axis in found):
            return None
        axes = tuple(sorted({axis - (rank or 0) if axis >= 0 else axis for axis in found}))
        return axes if rank is None or all(-rank <= axis < 0 for axis in axes) else None


@cache
def _rules() -> dict[str, Rule]:
    """How the first output of an operator is read; None says that it stays an operator of its operands."""
    from opshift.passes import terms_arithmetic, terms_attention, terms_layout, terms_rotary

    return {**terms_arithmetic.RULES, **terms_layout.RULES, **terms_attention.RULES, **terms_rotary.RULES}


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


def integer(node: NodeProto, name: str, default: int) -> int:
    return next((a.i for a in node.attribute if a.name == name), default)

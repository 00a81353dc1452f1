"""Reads the nodes of a body as terms (`algebra`). The same reader is run over models and over definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

from opshift.passes.analysis.scope import Scope
from opshift.passes.fusion.fixed import Fixed
from opshift.passes.fusion.keys import LEAF, NUMBER, ONES, OP, TENSOR, VECTOR, Key
from opshift.passes.fusion.terms import Terms
from opshift.passes.model import numbers, schemas
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import NodeProto, TensorProto, normalize_domain
from opshift.passes.model.traversal import integer, subgraphs
from opshift.passes.model.types import ELEMENT_TYPES, Dim

T = TensorProto
FLOATS = frozenset((T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16))
SPELLED_BEFORE = 6
"""The opset from which on Cast gives its type by number."""
PER_AXIS = 13
"""The opset from which on Softmax and its kin work along one axis; before, on all axes from there on as one."""

DRAWING = frozenset(  # what Dropout drops, its rule says
    ("Dropout", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")
)
_FAR = 24  # nodes that a shape is followed through
_UNCHANGED = frozenset(("Equal", "Cos", "Sin"))
"""Operators whose rules are for special cases alone; what another rule does not take apart is none of its results."""
_COMMUTATIVE = frozenset(("Equal", "And", "Or", "Xor"))

Dims = tuple[int, ...]
"""The terms of dimensions."""
Rule = Callable[["Reader", NodeProto], "int | None"]
DimsRule = Callable[["Reader", NodeProto, "Dims | None", int], "Dims | None"]
"""The dimensions of a node's output from those of its first input, and how far those of others may be followed."""


class Rules(NamedTuple):
    """How nodes are read, by operator: `values` tell the term of the first output (None: it stays an operator of its
    operands), `dims` the dimensions of that output, `parts` the terms of all that a Split makes.
    """

    values: Mapping[str, Rule]
    dims: Mapping[str, DimsRule]
    parts: Callable[[Reader, NodeProto], list[int] | None]


class Reader:
    """The terms of the values of one body, node by node in order."""

    def __init__(self, terms: Terms, scope: Scope, rules: Rules, outer: Reader | None = None):
        self.terms = terms
        self.rules = rules
        self.scope = scope
        self.opset = scope.opset
        self._outer = outer
        self._terms: dict[str, int] = {}
        self._elem_types: dict[str, int] = {}
        self._dims: dict[str, tuple[int, ...] | None] = {}
        self.fixed: Fixed = Fixed(scope, None if outer is None else outer.fixed)
        self._postponed: Sequence[NodeProto] = ()
        self.granted: set[str] = set()
        """Values whose dimensions are as they are read where sizes are 1 or more."""

    def term(self, name: str) -> int:
        """The term of a value, which is a leaf if no node was read that makes it."""
        found = self._terms.get(name)
        if found is None and self._postponed and (maker := self.scope.maker(name)) is not None:
            self._catch_up(maker)
            found = self._terms.get(name)
        if found is None:
            found = self._terms[name] = self._leaf_term(name)
        return found

    def postpone(self, nodes: Sequence[NodeProto]) -> None:
        """Read the nodes of the body when first a value is asked for that one of them makes."""
        self._postponed = nodes

    def _catch_up(self, maker: NodeProto) -> None:
        if maker.op_type == "Constant":
            self.read(maker)
            return
        nodes, self._postponed = self._postponed, ()
        for node in nodes:
            self.read(node)

    def _leaf_term(self, name: str) -> int:
        owner = self.scope.owner(name)
        if owner is not self.scope and owner is not None and self._outer is not None:
            return self._outer.term(name)
        held = owner.initializer(name, numbers.FEW) if owner is not None else None
        found = None if held is None else self._constant(held)
        return self.terms.of(LEAF, id(owner), name) if found is None else found

    def bind(self, name: str, term: int) -> None:
        self._terms[name] = term

    def elem_type(self, name: str) -> int:
        """The element type of a value; 0 where it is unknown."""
        found = self._elem_types.get(name)
        if found is None:
            found = self._elem_types[name] = self.scope.elem_type(name)
        return found

    def rank(self, name: str) -> int | None:
        shape = self.scope.shape(name)
        return None if shape is None else len(shape)

    def read(self, node: NodeProto) -> None:
        """Give the outputs of a node their terms. Those that it reads come first."""
        if normalize_domain(node.domain):
            return
        rule = None if self.scope.is_open(node) else self.rules.values.get(node.op_type)
        term = rule(self, node) if rule is not None else None
        if node.op_type == "Split" and (found := self.rules.parts(self, node)) is not None:
            self._terms.update(zip(node.output, found, strict=False))
        elif term is None:
            self._opaque(node)
        else:
            self._terms[node.output[0]] = term
        if elem_type := self._inferred_elem_type(node):
            self._elem_types.update(
                dict.fromkeys(node.output if node.op_type == "Split" else node.output[:1], elem_type)
            )

    def _inferred_elem_type(self, node: NodeProto) -> int:
        if node.op_type == "Cast":
            return integer(node, "to", 0) if self.opset >= SPELLED_BEFORE else 0
        like, elem_type = _output_type_rule(node.op_type, self.opset)
        return self.elem_type(node.input[like]) if 0 <= like < len(node.input) else elem_type

    def _opaque(self, node: NodeProto) -> None:
        op = node.op_type
        if op in DRAWING or self.scope.is_open(node) or any(True for _ in subgraphs(node)):
            return
        parameters = self.parameters(node)
        operands = [self.term(name) if name else -1 for name in node.input]
        while operands and operands[-1] == -1:
            operands.pop()
        if op in _COMMUTATIVE:
            operands.sort()
        absent = self.terms.of(LEAF, "absent")
        title = f"{op} as written" if op in self.rules.values and op not in _UNCHANGED else op
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
        given = [a for a in node.attribute if defaults.get(a.name) != a.SerializeToString()]
        return tuple(sorted((a.name, _plain(attribute_value(a))) for a in given))

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
        from opshift.passes.model.tensors import of_constant

        held = of_constant(node)
        if held is None:
            return self.terms.of(LEAF, id(self.scope), node.output[0])
        self._elem_types[node.output[0]] = held.data_type
        found = self._constant(held)
        return self.terms.of(LEAF, id(self.scope), node.output[0]) if found is None else found

    def ints(self, name: str) -> tuple[int, ...] | None:
        """The elements of a constant of integers that stands in the model."""
        return self._integers(self.term(name))

    def _integers(self, term: int) -> tuple[int, ...] | None:
        key = self.terms.keys[term]
        if key.kind == TENSOR:
            return key.values if key.type is not True else None
        if key.kind == VECTOR:
            parts = [self._integers(element) for element in key.elements]
            return None if None in parts else tuple(number for part in parts if part for number in part)
        return (int(key.value),) if key.kind in (NUMBER, ONES) and key.value.is_integer() else None

    def elements(self, name: str) -> tuple[int, ...] | None:
        """The terms of the elements of a vector of integers: a shape, axes."""
        key = self.terms.keys[self.term(name)]
        if key.kind == VECTOR:
            return tuple(key.elements)
        if key.kind == ONES and key.rank == 1:
            return (self.terms.number(key.value),)
        if key.kind == TENSOR and len(key.dims) == 1 and key.type is not True:
            return tuple(map(self.terms.number, key.values))
        return None

    def dims(self, name: str, depth: int = _FAR) -> tuple[int, ...] | None:
        """The terms of the dimensions of a value; None where its rank is unknown."""
        if name not in self._dims:
            shape = self.scope.shape(name)
            known = shape is not None and all(isinstance(dim, int) for dim in shape)
            made = self._dims_made(name, depth) if depth and not (known or self.scope.names_sizes(name)) else None
            node = self.scope.maker(name) if made is not None else None
            granted = name in self.scope.context.inference.granted
            if granted or (node is not None and not self.granted.isdisjoint(node.input)):
                self.granted.add(name)
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
        if node is None or normalize_domain(node.domain) or self.scope.is_open(node):
            return None
        made = self.rules.dims.get(node.op_type)
        if made is None or not node.input:
            return None
        return made(self, node, self.dims(node.input[0], depth - 1), depth)

    def target(
        self, node: NodeProto, wanted: tuple[int, ...], before: tuple[int, ...] | None
    ) -> tuple[int, ...] | None:
        """The dimensions that a Reshape asks for; -1 where one is to be computed."""
        target = list(wanted)
        if not integer(node, "allowzero", 0) and self._takes_zero_for_size(wanted, before):
            self.granted.add(node.output[0])
        for axis, element in enumerate(wanted):
            if self.terms.value(element) == 0 and not integer(node, "allowzero", 0):
                if before is None or axis >= len(before):
                    return None
                target[axis] = before[axis]
        computed = [axis for axis, element in enumerate(target) if self.terms.value(element) == -1]
        if not computed and len(opaque := [axis for axis, dim in enumerate(target) if self._is_computed(dim)]) == 1:
            computed, target[opaque[0]] = opaque, self.terms.number(-1)  # it follows from the others
        if len(computed) == 1 and before is not None:
            rest = self._quotient(before, [element for element in target if self.terms.value(element) != -1])
            if rest is not None:
                target[computed[0]] = rest
        return tuple(target)

    def _is_computed(self, dim: int) -> bool:
        """Whether a dimension is none that a value has, but made of such."""
        return self.terms.keys[dim].kind == OP and not self.terms.is_op(dim, "Dim")

    def _takes_zero_for_size(self, wanted: Dims, before: Dims | None) -> bool:
        """Whether a dimension that may be 0 is read as it stands, where 0 means "as it was" to Reshape.

        One that is kept in its place is the same either way, and so is the only one that is not a number: it follows.
        """
        read = [
            axis
            for axis, element in enumerate(wanted)
            if self.terms.value(element) is None
            if before is None or (axis < len(before) and element != before[axis])
        ]
        if len(read) != 1 or before is None:
            return bool(read)
        rest = [element for axis, element in enumerate(wanted) if axis != read[0]]
        follows = all((self.terms.value(element) or 0) > 0 for element in rest)
        return not (follows and self._quotient(before, rest) == wanted[read[0]])

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

    def together(self, shapes: list[Dims | None]) -> Dims | None:
        """What shapes are broadcast to; None where that is not known."""
        rank, one = max((len(shape) for shape in shapes if shape is not None), default=0), self.terms.number(1)
        made = [one] * rank
        for shape in shapes:
            if shape is None:
                return None
            for axis, dim in enumerate(shape, rank - len(shape)):
                both = dim if made[axis] == one else made[axis] if dim == one else self._wider(made[axis], dim)
                if both is None:
                    return None
                made[axis] = both
        return tuple(made)

    def _wider(self, a: int, b: int) -> int | None:
        """What two dimensions are broadcast to; one that is no more than another is that one, or 1."""
        for one, other in ((a, b), (b, a)):
            if one == other or (self.terms.is_op(one, "Least") and other in self.terms.operands(one)):
                return other
        return None

    def shape(self, name: str) -> list[Dim] | None:
        """The dimensions of a value, as far as they are known to be the same as others: numbers, or names of terms."""
        return self._spell_dims(self.dims(name))

    def broadcast(self, *names: str) -> list[Dim] | None:
        """The same for what values are broadcast to."""
        return self._spell_dims(self.together([self.dims(name) for name in names]))

    def _spell_dims(self, dims: Dims | None) -> list[Dim] | None:
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
        if key.kind != ONES:
            return found
        if any((rank := self.rank(other)) is not None and rank >= key.rank for other in others):
            return self.terms.number(key.value)
        return found

    def operands(self, names: Sequence[str]) -> list[int]:
        found = [self.term(name) for name in names]
        kinds = [self.terms.keys[term].kind for term in found]
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
def _defaults(op: str, opset: int) -> dict[str, bytes]:
    schema = schemas.schema("", op, opset)
    return {n: a.default.SerializeToString() for n, a in schema.attributes.items() if a.default} if schema else {}


@cache
def _output_type_rule(op: str, opset: int) -> tuple[int, int]:
    """Find the input whose element type the result has (-1 if none), and the type that it always has (0 if none)."""
    schema = schemas.schema("", op, opset)
    made = schema.output(0) if schema else None
    if schema is None or made is None:
        return -1, 0
    like = next((i for i, formal in enumerate(schema.inputs) if formal.type == made.type), -1)
    return like, ELEMENT_TYPES.get(next(iter(made.types)), 0) if len(made.types) == 1 else 0


def _plain(value: Any) -> Any:
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    return value.SerializeToString()

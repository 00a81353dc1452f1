"""Groups: the nodes between the inputs of an operator and its result, which the operator takes the place of."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opshift.passes.fusion import emission
from opshift.passes.fusion.keys import NUMBER, ONES, SUM, TENSOR, VECTOR
from opshift.passes.fusion.match import GraphMatch
from opshift.passes.fusion.patterns import Pattern, PatternTensor
from opshift.passes.fusion.reader import FLOATS, Reader
from opshift.passes.fusion.shape_rules import fits, has_rule
from opshift.passes.model.messages import TensorProto, normalize_domain
from opshift.passes.model.traversal import Body, results, subgraphs, with_nested
from opshift.passes.model.types import Dim

T = TensorProto
_FAR = 6  # nodes above a shared value that are looked at
LARGEST = 96  # nodes of a definition that is written out
_WIDTHS: dict[int, int] = {T.DOUBLE: 53, T.FLOAT: 24, T.FLOAT16: 11, T.BFLOAT16: 8}
CONSTANT = frozenset((NUMBER, ONES, TENSOR, VECTOR))
"""Kinds of terms that hang on no value."""
_STAYING = frozenset(("Cast", "Equal", "Identity", "Mul", "Reshape", "Squeeze", "Transpose", "Unsqueeze", "Where"))
"""What prepares an input, and may stay for others that read it too."""
_SILENT = frozenset(("Identity", "Constant"))


@dataclass
class Uses:
    """Who uses what in one body."""

    body: Body
    makers: dict[str, int] = field(default_factory=dict)
    users: dict[str, list[int]] = field(default_factory=dict)
    pinned: set[str] = field(default_factory=set)
    """Values that are read by others than the nodes of this very body."""
    ops: list[str] = field(default_factory=list)
    made: list[Sequence[str]] = field(default_factory=list)
    read: list[Sequence[str]] = field(default_factory=list)
    """The operator, the outputs and the inputs of each node."""
    holding: set[int] = field(default_factory=set)
    """The nodes that hold graphs."""

    def __post_init__(self) -> None:
        for index, node in enumerate(self.body.node):
            made, read = list(node.output), list(node.input)
            self.ops.append(node.op_type)
            self.made.append(made)
            self.read.append(read)
            for name in made:
                self.makers[name] = index
            for name in read:
                self.users.setdefault(name, []).append(index)
            for _, _, graph in subgraphs(node) if node.attribute else ():
                self.holding.add(index)
                for inner in with_nested([graph]):
                    self.pinned.update(name for held in inner.node for name in held.input)
                    self.pinned.update(results(inner))
        self.pinned.update(results(self.body))


class Held(NamedTuple):
    """What an input of the new node gets: a value, or what a Transpose, a Reshape or an Add makes of it."""

    name: str
    perm: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    plus: str = ""
    behind: int = 0
    """How many axes of one element are behind those that the input has."""
    half: bool = False
    """Whether it is the first half of a constant that holds it twice."""
    op: str = ""
    """What is computed of each element."""


class Moved(NamedTuple):
    """The same of a term."""

    term: int
    perm: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    plus: int = -1
    behind: int = 0
    half: bool = False
    op: str = ""


class Group(NamedTuple):
    """Nodes by index, and what the inputs of the operator are by their place."""

    inside: frozenset[int]
    held: dict[int, Held]


class Grouping:
    """Finds groups in one body, or within some of its nodes."""

    def __init__(self, reader: Reader, uses: Uses, within: Container[int] | None = None):
        self._within = within
        self._reader = reader
        self._scope = reader.scope
        self._terms = reader.terms
        self._nodes = reader.scope.body.node
        self._uses = uses

    def group(self, index: int, pattern: Pattern, found: GraphMatch, taken: Container[int]) -> Group | None:
        """The nodes that make the result of the node at `index` from what variables stand for.

        None if others read what they make, if they read anything else, or if one is `taken`.
        """
        elem_type = self._reader.elem_type(self._nodes[index].output[0])
        wanted = {term: self._elem_type_of(pattern, variable) for variable, term in found.bound.items()}
        turned = {term: self._find_move(term) for term in wanted}
        for term, of in turned.items():
            if of is not None:
                wanted = {of.term: wanted[term], **({of.plus: wanted[term]} if of.plus >= 0 else {}), **wanted}
        walked = self._walk(index, pattern.shares, wanted, taken)
        if walked is None:
            return None
        inside, names, doubled = walked
        inside |= self._constants_of(index, inside)
        if (closed := self._find_closed(index, inside)) is None:
            return None
        for name in self._above(doubled):
            if self._reader.elem_type(name) == elem_type:
                names.setdefault(self._reader.term(name), name)
        held = {variable: self._input_for(term, turned[term], names) for variable, term in found.bound.items()}
        known = {variable: given for variable, given in held.items() if given is not None}
        return Group(frozenset(closed), known) if len(known) == len(held) else None

    def fits(self, index: int, pattern: Pattern, group: Group) -> bool:
        """Whether the operator gives the shape that the nodes gave."""
        if len(pattern.call.inputs) == 1 and not has_rule(pattern.call):
            return True
        result = self._reader.shape(self._nodes[index].output[0])
        return fits(pattern.call, self.shapes(pattern, group.held), result)

    def _walk(
        self, index: int, shares: bool, wanted: Mapping[int, int], taken: Container[int]
    ) -> tuple[set[int], dict[int, str], list[str]] | None:
        """The nodes above a result as far as what is `wanted`, a name for each such term, and values that are halves.

        None where they read anything else, where one is `taken`, or where there are too many.
        """
        elem_type = self._reader.elem_type(self._nodes[index].output[0])
        names: dict[int, str] = {}
        doubled: list[str] = []
        inside, pending = {index}, list(self._nodes[index].input)
        while pending:
            name = pending.pop()
            if not name:
                continue
            term = self._reader.term(name)
            if term in wanted and self._reader.elem_type(name) == wanted[term]:
                if self._precision(names.setdefault(term, name)) != self._precision(name):
                    return None  # one is the other, rounded
                continue
            if shares and self._terms.is_op(term, "Twice"):
                doubled.append(name)
                continue
            at = self._uses.makers.get(name)
            if self._terms.keys[term].kind in CONSTANT:
                continue
            if at is None or at in taken or (self._within is not None and at not in self._within):
                return None
            if at in inside:
                continue
            maker = self._nodes[at]
            several = len(maker.output) > 1 and maker.op_type != "Split"
            if len(inside) >= LARGEST or normalize_domain(maker.domain) or several:
                return None
            if self._is_narrower(maker.output[0], elem_type):
                return None
            inside.add(at)
            pending += maker.input
        return inside, names, doubled

    def _input_for(self, term: int, moved: Moved | None, names: Mapping[int, str]) -> Held | None:
        """Find what the call reads for a term: its value, or what it is a Transpose, a Reshape or a sum of."""
        if term in names:
            return Held(names[term])
        if moved is None or moved.term not in names or (moved.plus >= 0 and moved.plus not in names):
            return None
        plus = names.get(moved.plus, "")
        return Held(names[moved.term], moved.perm, moved.shape, plus, moved.behind, moved.half, moved.op)

    def _constants_of(self, index: int, inside: set[int]) -> set[int]:
        """Nodes that make constants from what the nodes make, such as a number of its type, for them alone."""
        found = set()
        for at in inside - {index}:
            for user in self._uses.users.get(self._nodes[at].output[0], ()):
                made = self._nodes[user].output
                if user in inside or len(made) != 1 or made[0] in self._uses.pinned:
                    continue
                constant = self._terms.keys[self._reader.term(made[0])].kind in CONSTANT
                if constant and inside.issuperset(self._uses.users.get(made[0], ())):
                    found.add(user)
        return found

    def shapes(self, pattern: Pattern, held: dict[int, Held]) -> list[list[Dim] | None]:
        """The shapes of the inputs; None for an unknown one."""
        return [self._shape(held[i]) if i in held else None for i in range(len(pattern.call.inputs))]

    def operators(self, inside: frozenset[int]) -> list[str]:
        """The operators of some nodes, in their order."""
        return [op for at in sorted(inside) if (op := self._uses.ops[at]) not in _SILENT]

    def _shape(self, held: Held) -> list[Dim] | None:
        if held.shape:
            return list(held.shape)
        if held.half:
            return emission.half_of(self._scope, held.name)
        if held.plus:
            return self._reader.broadcast(held.name, held.plus)
        if held.behind:
            dims = self._reader.shape(held.name)
            kept = None if dims is None else len(dims) - held.behind
            return dims[:kept] if dims is not None and dims[kept:] == [1] * held.behind else None
        shape = self._reader.shape(held.name)
        return [shape[axis] for axis in held.perm] if shape is not None and held.perm else shape

    def _above(self, names: list[str]) -> Iterator[str]:
        """Values and what they are computed from, not far above."""
        seen, front = set(names), names
        for _ in range(_FAR):
            front = [
                above
                for name in front
                if (at := self._uses.makers.get(name)) is not None
                for above in self._nodes[at].input
                if above and above not in seen
            ]
            seen.update(front)
            yield from front

    def _elem_type_of(self, pattern: Pattern, variable: int) -> int:
        """The element type of what a variable stands for."""
        given = pattern.call.inputs[variable]
        assert isinstance(given, PatternTensor), "variables stand for tensors"
        return given.elem_type

    def _find_move(self, term: int) -> Moved | None:
        """Find the term that this one is a Transpose, a Reshape or a sum of, if a node can do that again."""
        key = self._terms.keys[term]
        if self._terms.is_op(term, "Transpose"):
            return Moved(key.operands[0], perm=key.parameter)
        if key.kind == SUM and not key.constant and len(key.members) == 2 and all(c == 1 for _, c in key.members):
            (one, _), (other, _) = key.members
            return Moved(one, plus=other)
        if self._terms.is_op(term, "Half"):
            return Moved(key.operands[0], half=True)
        if self._terms.is_op(term, "Cos") or self._terms.is_op(term, "Sin"):
            return Moved(key.operands[0], op=key.name)
        if self._terms.is_op(term, "Vector"):
            return Moved(key.operands[0], behind=key.parameter)
        if self._terms.is_op(term, "Reshape"):
            sizes = [self._terms.value(dim) for dim in key.parameter]
            if all(size is not None and size > 0 for size in sizes):
                return Moved(key.operands[0], shape=tuple(int(size) for size in sizes if size is not None))
        return None

    def _is_narrower(self, name: str, elem_type: int) -> bool:
        own = self._reader.elem_type(name)
        return own in FLOATS and _WIDTHS[own] < _WIDTHS[elem_type]

    def _precision(self, name: str) -> int:
        """The bits of the narrowest type that a value was cast to on its way."""
        found = _WIDTHS.get(self._reader.elem_type(name), 0)
        at = self._uses.makers.get(name)
        while at is not None and self._nodes[at].op_type in ("Cast", "CastLike", "Identity"):
            name = self._nodes[at].input[0]
            found = min(found, _WIDTHS.get(self._reader.elem_type(name), found))
            at = self._uses.makers.get(name)
        return found

    def _find_closed(self, index: int, inside: set[int]) -> set[int] | None:
        """The nodes whose results nobody else reads, but for that of the group; None if others than views are read.

        Those stay: Unsqueeze in front of RotaryEmbedding may be there once for all layers.
        """
        held, again = set(inside), True
        while again:
            read = [at for at in held - {index} if self._is_read_outside(at, held)]
            if any(self._uses.ops[at] not in _STAYING for at in read):
                return None
            held.difference_update(read)
            again = bool(read)
        return held

    def _is_read_outside(self, at: int, inside: set[int]) -> bool:
        uses = self._uses
        return any(n in uses.pinned or not inside.issuperset(uses.users.get(n, ())) for n in uses.made[at])

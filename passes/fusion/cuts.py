"""Cuts: regions above a result that are read by themselves, as if what they take from outside were nothing but inputs.

The normal form of a whole body writes into each other what stands in sequence: in `Gelu(x + 1)` it moves the 1, and of
Gelu(Gelu(x)) it makes one product. Read from a cut on, an operator looks as its definition does. A region grows upwards
from its result, by the latest node above it that nothing else reads. Regions that are alike in all that a reader sees
have the same state, so that what none of them is need be found out once alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from typing import Any, NamedTuple

from opshift.passes.fusion.group import CONSTANT, Grouping, Uses
from opshift.passes.fusion.keys import LEAF, NUMBER
from opshift.passes.fusion.reader import DRAWING, Reader
from opshift.passes.model.messages import NodeProto, normalize_domain

_BEYOND = 4  # nodes that a region is still grown by when its like is what is looked for
MOVING = frozenset(("Expand", "Reshape", "Shape", "Squeeze", "Unsqueeze", "Gather", "Concat", "Slice"))
"""Operators that are read by the dimensions of what they move."""
_BY_TYPE = (
    "Abs Add And Ceil Cos Div Elu Erf Exp Floor Greater Less Log Max Min Mul Neg Not Or Reciprocal Relu Selu Sigmoid "
    "Sin Softplus Sqrt Sub Sum Tan Tanh Where"
)
_PLAIN = frozenset(_BY_TYPE.split())
"""Operators that are read by element types alone, as long as no constant has dimensions."""


class StateNumbers(dict[Any, int]):
    """The states of regions that were looked at, by number."""

    def number(self, key: Any) -> int:
        return self.setdefault(key, len(self))


@dataclass
class Regions:
    """The regions above a result, the smallest first: of each so many `nodes`, by index, its state, and what it takes.

    That is how many values come from outside, but for constants.
    """

    nodes: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    """Their values, numbered in the order in which they are met."""


class Part(Reader):
    """Reads a region alone: what is made outside is a leaf, whatever it is there."""

    def __init__(self, whole: Reader, nodes: Sequence[NodeProto]):
        super().__init__(whole.terms, whole.scope, whole.rules)
        self._whole = whole
        self._elem_types = whole._elem_types
        self.granted = whole.granted
        for node in nodes:
            self.read(node)

    def _leaf_term(self, name: str) -> int:
        if name in self._whole.fixed:
            found = self._whole.term(name)
            if self.terms.keys[found].kind in CONSTANT:
                return found
        return self.terms.of(LEAF, "cut", name)

    def dims(self, name: str, depth: int = 0) -> tuple[int, ...] | None:
        return self._whole.dims(name)


class View:
    """A way to read a result: in the whole body, or in a region by itself."""

    def __init__(self, whole: Reader, uses: Uses, nodes: Sequence[int] | None = None):
        self._whole = whole
        self._uses = uses
        self._nodes = nodes

    @cached_property
    def reader(self) -> Reader:
        if self._nodes is None:
            return self._whole
        held = self._whole.scope.body.node
        return Part(self._whole, [held[at] for at in sorted(self._nodes)])

    @cached_property
    def grouping(self) -> Grouping:
        return Grouping(self.reader, self._uses, self._nodes)


class _Entry(NamedTuple):
    """What a node is by itself, as a number; what it reads and where that is made; what it makes, who reads it."""

    elem_type: int
    inputs: Sequence[tuple[str, int]]
    outputs: Sequence[str]
    users: Sequence[int]


_NOWHERE, _CONSTANT = -1, -2  # in the place of a node that makes a value


class Cuts:
    """The regions above the results of one body, none of more than so many nodes."""

    def __init__(self, reader: Reader, uses: Uses, numbers: StateNumbers, most: int):
        self._reader = reader
        self._nodes = reader.scope.body.node
        self._uses = uses
        self._numbers = numbers
        self._most = most
        self._looks: dict[str, int] = {}
        self._constants: dict[str, tuple[int, bool]] = {}
        self._entries: dict[int, _Entry | None] = {}

    def above(self, index: int, taken: Container[int], inputs: int, is_found: Callable[[int], bool]) -> Regions:
        """The regions of which a node makes the result, as long as no more than so many inputs are sure to remain.

        Few more once one is in a state that tells what it is.
        """
        found = Regions(places={self._nodes[index].output[0]: 0})
        heap, inside, outside, places, state = [-index], set[int](), set[int](), found.places, 0
        most, leaves, fixed = self._most, 1, 0
        entries, numbers, nodes, states, leaving = self._entries, self._numbers, found.nodes, found.states, found.taken
        while heap and len(inside) < most and fixed <= inputs:
            at = -heappop(heap)
            if at in inside or at in outside:
                continue
            entry = None if at in taken else entries[at] if at in entries else self._entry(at)
            if entry is None or (at != index and not inside.issuperset(entry.users)):
                outside.add(at)
                fixed += sum(map(places.__contains__, self._uses.made[at]))
                continue
            inside.add(at)
            key = [state, entry.elem_type]
            for name in entry.outputs:
                key.append(place := places.get(name, _NOWHERE))
                leaves -= place >= 0
            for name, maker in entry.inputs:
                place = places.get(name, _NOWHERE)
                if place < 0:
                    place = places[name] = len(places)
                    leaves += maker != _CONSTANT
                    fixed += maker == _NOWHERE
                    if maker >= 0:
                        heappush(heap, -maker)
                key.append(place)
            state = numbers.setdefault(tuple(key), len(numbers))
            nodes.append(at)
            states.append(state)
            leaving.append(leaves)
            if most == self._most and is_found(state):
                most = min(most, len(inside) + _BEYOND)
        return found

    def _entry(self, at: int) -> _Entry | None:
        """None for a node that no region has."""
        read, made = self._uses.read[at], self._uses.made[at]
        found = None if at in self._uses.holding or not read else self._describe(self._nodes[at], read, made)
        self._entries[at] = found
        return found

    def _describe(self, node: NodeProto, read: Sequence[str], made: Sequence[str]) -> _Entry | None:
        op, held = node.op_type, node.attribute
        if normalize_domain(node.domain) or op in DRAWING:
            return None
        inputs: list[tuple[str, int]] = []
        looks: list[Any] = []
        plain, makers = op in _PLAIN, self._uses.makers
        for name in filter(None, read):
            term, is_plain = self._constant(name)
            plain &= is_plain
            looks.append(term)
            inputs.append((name, makers.get(name, _NOWHERE) if term < 0 else _CONSTANT))
        looks += map(self._reader.elem_type if plain else self._look, (made[0], *filter(None, read)))
        attributes = tuple(sorted(each.SerializeToString(deterministic=True) for each in held)) if held else ()
        given = tuple(map(bool, read)), self._reader.scope.is_open(node)
        moved = tuple(map(self._reader.dims, (read[0], made[0]))) if op in MOVING else ()
        key = op, len(made), attributes, tuple(looks), given, moved
        users: Sequence[int] = self._uses.users.get(made[0], ())
        if len(made) > 1:
            users = [user for name in made for user in self._uses.users.get(name, ())]
        pinned = not self._uses.pinned.isdisjoint(made)
        return _Entry(self._numbers.number(key), inputs, made, [_NOWHERE] if pinned else users)

    def _constant(self, name: str) -> tuple[int, bool]:
        """The term of a constant, -1 of any other value; and whether it has no dimensions that matter."""
        found = self._constants.get(name)
        if found is None:
            term = self._reader.term(name) if name in self._reader.fixed else -1
            kind = self._reader.terms.keys[term].kind if term >= 0 else LEAF
            found = self._constants[name] = (term if kind in CONSTANT else -1, kind in (LEAF, NUMBER))
        return found

    def _look(self, name: str) -> int:
        """A number for the type of a value."""
        found = self._looks.get(name)
        if found is None:
            value_type = self._reader.scope.type(name)
            key = (
                self._reader.elem_type(name) if value_type is None else value_type.SerializeToString(deterministic=True)
            )
            found = self._looks[name] = self._numbers.number(("type", key))
        return found

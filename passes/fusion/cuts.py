"""Cuts: regions above a result that are read by themselves, as if what they take from outside were nothing but inputs.

The normal form of a whole body writes into each other what stands in sequence: in `Gelu(x + 1)` it moves the 1, and of
Gelu(Gelu(x)) it makes one product. Read from a cut on, an operator looks as its definition does. A region grows upwards
from its result, by the latest node above it that nothing else reads. Regions that are alike in all that a reader sees
have the same state, so that what none of them is need be found out once alone.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from typing import Any

from opshift.passes.fusion.group import CONSTANT, Grouping, Uses
from opshift.passes.fusion.keys import LEAF
from opshift.passes.fusion.reader import DRAWING, Reader
from opshift.passes.model.messages import NodeProto, default_domain
from opshift.passes.model.traversal import Op

_MOVING = frozenset(("Expand", "Reshape", "Shape", "Squeeze", "Unsqueeze", "Gather", "Concat", "Slice"))
"""Operators that are read by the dimensions of what they move."""


@dataclass
class Known:
    """What regions are that were looked at, by number, and how many nodes of those of a state an operator replaces."""

    numbers: dict[Any, int] = field(default_factory=dict)
    worth: dict[tuple[int, Op], int] = field(default_factory=dict)

    def number(self, key: Any) -> int:
        return self.numbers.setdefault(key, len(self.numbers))


@dataclass(frozen=True)
class Region:
    """Nodes by index, that of the result first, and their state."""

    nodes: tuple[int, ...]
    state: int
    operators: frozenset[str]


class Part(Reader):
    """Reads a region alone: what is made outside is a leaf, whatever it is there."""

    def __init__(self, whole: Reader, nodes: Sequence[NodeProto]):
        super().__init__(whole.terms, whole.scope, whole.rules)
        self._whole = whole
        self._kinds = whole._kinds
        self.granted = whole.granted
        for node in nodes:
            self.read(node)

    def _given(self, name: str) -> int:
        found = self._whole.term(name)
        return found if self.terms.keys[found].kind in CONSTANT else self.terms.of(LEAF, "cut", name)

    def dims(self, name: str, depth: int = 0) -> tuple[int, ...] | None:
        return self._whole.dims(name)


class View:
    """A way to read a result: in the whole body, or in a region by itself."""

    def __init__(self, whole: Reader, uses: Uses, region: Region | None = None):
        self._whole = whole
        self._uses = uses
        self._region = region
        self.state = -1 if region is None else region.state
        self.operators = frozenset[str]() if region is None else region.operators

    @cached_property
    def reader(self) -> Reader:
        if self._region is None:
            return self._whole
        nodes = self._whole.scope.body.node
        return Part(self._whole, [nodes[at] for at in sorted(self._region.nodes)])

    @cached_property
    def grouping(self) -> Grouping:
        return Grouping(self.reader, self._uses, None if self._region is None else self._region.nodes)


class Cuts:
    """The regions above the results of one body."""

    def __init__(self, reader: Reader, uses: Uses, known: Known, most: int):
        self._reader = reader
        self._nodes = reader.scope.body.node
        self._uses = uses
        self._known = known
        self._most = most
        self._looks: dict[str, int] = {}
        self._kinds: dict[int, int] = {}

    def above(self, index: int, taken: Container[int]) -> list[Region]:
        """The regions of which a node makes the result, from the largest on."""
        found: list[Region] = []
        heap, inside, operators, state = [-index], dict[int, None](), set[str](), 0
        places: dict[str, int] = {name: 0 for name in self._nodes[index].output[:1]}
        while heap and len(inside) < self._most:
            at = -heappop(heap)
            if at in inside or (at != index and (at in taken or not self._is_within(at, inside))):
                continue
            inside[at] = None
            node = self._nodes[at]
            operators.add(node.op_type)
            state = self._known.number((state, self._kind(at), self._references(node, places, heap)))
            found.append(Region(tuple(inside), state, frozenset(operators)))
        return found[::-1]

    def _is_within(self, at: int, inside: Container[int]) -> bool:
        """Whether a node may be in a region, the later nodes of which are known."""
        node = self._nodes[at]
        if default_domain(node.domain) or not node.input or node.op_type in DRAWING:
            return False
        return all(
            name not in self._uses.pinned and all(user in inside for user in self._uses.users.get(name, ()))
            for name in node.output
        )

    def _references(self, node: NodeProto, places: dict[str, int], heap: list[int]) -> tuple[Any, ...]:
        """What a node reads: constants, or values by their place among those of the region."""
        made: list[Any] = []
        for name in node.input:
            place = places.get(name)
            if place is None and name:
                term = self._reader.term(name)
                if self._reader.terms.keys[term].kind in CONSTANT:
                    made.append((term, self._look(name)))
                    continue
                place = places[name] = len(places)
                if (maker := self._uses.makers.get(name)) is not None:
                    heappush(heap, -maker)
                made.append((place, self._look(name), "new"))
            else:
                made.append(place)
        return (*map(places.get, node.output), None, *made)

    def _kind(self, at: int) -> int:
        """A number for all that a node is by itself."""
        found = self._kinds.get(at)
        if found is None:
            node = self._nodes[at]
            attributes = tuple(sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute))
            moved = tuple(map(self._reader.dims, (node.input[0], node.output[0]))) if node.op_type in _MOVING else ()
            key = (node.op_type, attributes, self._look(node.output[0]), moved)
            found = self._kinds[at] = self._known.number(key)
        return found

    def _look(self, name: str) -> int:
        """A number for the type of a value."""
        found = self._looks.get(name)
        if found is None:
            shape = self._reader.scope.shape(name)
            key = ("type", self._reader.kind(name), None if shape is None else tuple(shape))
            found = self._looks[name] = self._known.number(key)
        return found

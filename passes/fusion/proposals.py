"""Proposals: which call of an operator may take the place of the nodes above a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import isclose
from typing import NamedTuple

from opshift.passes.fusion import masks, patterns
from opshift.passes.fusion.cuts import MOVING, Cuts, Regions, StateNumbers, View
from opshift.passes.fusion.families import Clues, Family
from opshift.passes.fusion.group import LARGEST, Group, Uses
from opshift.passes.fusion.keys import OP, PRODUCT, SUM
from opshift.passes.fusion.match import GraphMatch, Matcher
from opshift.passes.fusion.patterns import Axes, Pattern, PatternCall, PatternTensor
from opshift.passes.fusion.reader import FLOATS, Reader
from opshift.passes.fusion.terms import Terms
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.traversal import Op

T = TensorProto
MASK = 3  # the place of the mask among the inputs of Attention
_NEAR = 24  # nodes of a region; those of operators that are asked for by name may be larger
_DEPTH = 6  # how far from the root of a term axes are looked for
_TOLERANCES: dict[int, float] = {T.DOUBLE: 1e-9, T.FLOAT: 2e-6, T.FLOAT16: 1e-3, T.BFLOAT16: 8e-3}
"""How far a constant may be from the definition's: a few roundings of its type."""
_POSITIVE = {"Attention": ("scale",), "Celu": ("alpha",)}
"""Floats for which the operator is its definition only where they are more than 0; for all others epsilon."""
_ROUNDING = frozenset(("Add", "Cast", "Div", "Mul", "Pow", "Reciprocal", "Sqrt", "Sub", "Sum"))


class Proposal(NamedTuple):
    """A call that may take the place of some nodes."""

    pattern: Pattern
    floats: Mapping[str, float]
    group: Group
    remedy: masks.MaskRemedy
    saved: int
    """How many nodes it saves."""
    is_literal: bool
    """Whether the nodes are the definition's own, and too few of them round for their order to matter."""
    how: str
    """What becomes of what, in words."""


class Recipe(NamedTuple):
    """A proposal for all regions of one state, whose nodes and values are told by their places."""

    of: Proposal
    nodes: tuple[int, ...]
    names: Mapping[int, tuple[int, int]]
    """The values that inputs are made of."""


@dataclass
class RegionKnowledge:
    """What is known of the regions of a model: by state and operator, how many nodes go, and what comes instead."""

    numbers: StateNumbers = field(default_factory=StateNumbers)
    saved: dict[tuple[int, Op], int] = field(default_factory=dict)
    recipes: dict[tuple[int, Op], Recipe] = field(default_factory=dict)


Permits = Callable[[int, Proposal], bool]


class Proposals:
    """Finds the calls that may take the place of nodes of one body; not more nodes than it takes, but for `least`."""

    def __init__(
        self,
        reader: Reader,
        uses: Uses,
        wanted: Mapping[Op, Family],
        least: int,
        known: RegionKnowledge,
        permits: Permits,
    ):
        self._reader = reader
        self._scope = reader.scope
        self._terms = reader.terms
        self._nodes = reader.scope.body.node
        self._uses = uses
        self._families = wanted
        self._least = least
        self._known = known
        self._permits = permits
        self._cuts = Cuts(reader, uses, known.numbers, _NEAR if least > 1 else LARGEST)
        self._whole = View(reader, uses)
        self._views: dict[int, View] = {}
        """Those of the regions above one result, by size."""

    def first(self, index: int, ops: Sequence[Op], taken: Container[int]) -> Proposal | None:
        """The call of the first of some operators whose result a node makes, in a region or else in the whole body."""
        elem_type = self._reader.elem_type(self._nodes[index].output[0])
        if len(self._nodes[index].output) != 1 or elem_type not in FLOATS:
            return None
        saved = self._known.saved
        inputs = max((self._families[op].inputs for op in ops), default=0)
        regions = self._cuts.above(index, taken, inputs, lambda state: any(saved.get((state, op), 0) > 0 for op in ops))
        self._views.clear()
        in_regions = (self._largest(index, elem_type, op, regions, taken) for op in ops)
        in_body = (self._read(index, elem_type, op, self._whole, taken)[0] for op in ops)
        return next((found for found in chain(in_regions, in_body) if found is not None), None)

    def _largest(self, index: int, elem_type: int, op: Op, regions: Regions, taken: Container[int]) -> Proposal | None:
        """The call that saves most nodes, read in a region above its result; the largest come first."""
        best: Proposal | None = None
        saved, family, unknown = self._known.saved, self._families[op], len(self._nodes)
        each = zip(regions.states, regions.taken, strict=True)
        sizes = [
            size
            for size, (state, of) in enumerate(each, 1)
            if size >= self._least and of <= family.inputs and saved.get((state, op)) != 0
        ]
        order = [(saved.get((regions.states[size - 1], op), unknown), size) for size in sizes]
        for most, size in sorted(order, reverse=True):
            if best is not None and most <= best.saved:
                break
            key = regions.states[size - 1], op
            found = self._again(index, key, regions)
            if found is None:
                nodes = regions.nodes[:size]
                held = {self._nodes[at].op_type for at in nodes}
                if any(needed and needed.isdisjoint(held) for needed in (family.anchors, family.also)):
                    saved[key] = 0
                    continue
                view = self._views.setdefault(size, View(self._reader, self._uses, nodes))
                found, saved[key] = self._read(index, elem_type, op, view, taken)
                self._remember(key, found, regions)
            if found is not None and (best is None or found.saved > best.saved):
                best = found
        return best

    def _read(
        self, index: int, elem_type: int, op: Op, view: View, taken: Container[int]
    ) -> tuple[Proposal | None, int]:
        """The call that saves most nodes whose result the node makes, in some view; and how many any does.

        Those count that are not allowed.
        """
        best: Proposal | None = None
        most, name = 0, self._nodes[index].output[0]
        term = view.reader.term(name)
        if self._terms.keys[term].kind not in (OP, PRODUCT, SUM):
            return None, 0
        clues = Clues(self._reader.opset, elem_type, lambda: self._reader.shape(name), _FoundAxes(self._terms, term))
        for call in self._families[op].suggest(op, clues):
            if (pattern := patterns.pattern(call)) is None:
                continue
            for found in self._matches(term, elem_type, pattern):
                group = view.grouping.group(index, pattern, found, taken)
                saved = 0 if group is None else self._save(group)
                if group is None or saved <= (0 if best is None else best.saved):
                    continue
                most = max(most, saved)
                literal = pattern.grade == "exact" and self._is_literal(term, pattern, group)
                how = f"Folded {', '.join(self._whole.grouping.operators(group.inside))} into {op[1]}"
                proposal = Proposal(pattern, found.floats, group, masks.MaskRemedy.NONE, saved, literal, how)
                if (allowed := self._allow(index, proposal)) is not None:
                    best = allowed
                    break
        return best, most if best is None else best.saved

    def _allow(self, index: int, proposal: Proposal) -> Proposal | None:
        """A proposal, if its operator gives the shape of the nodes, and nothing forbids it."""
        if not self._whole.grouping.fits(index, proposal.pattern, proposal.group):
            return None
        remedy = self._remedy(proposal.pattern.call, proposal.group)
        if remedy is masks.MaskRemedy.NO or not self._permits(index, proposal):
            return None
        return proposal._replace(remedy=remedy)

    def _matches(self, term: int, elem_type: int, pattern: Pattern) -> Iterator[GraphMatch]:
        """The ways in which a term is a pattern, of which the operator is its definition."""
        own, other = pattern.terms.keys[pattern.root], self._terms.keys[term]
        if own.kind != other.kind or (own.kind == OP and own.name != other.name):
            return
        positive = _POSITIVE.get(pattern.call.op[1], ("epsilon",))
        for found in Matcher(pattern.terms, pattern.root, pattern.marks, self._terms, _TOLERANCES[elem_type]).all(term):
            if any(found.floats.get(name, 1.0) <= 0 for name in positive):
                continue
            if elem_type == T.DOUBLE and not all(map(_is_single, found.floats.values())):
                continue  # attributes are float32
            yield from (found, *self._without_scales(pattern, found))

    def _is_literal(self, term: int, pattern: Pattern, group: Group) -> bool:
        of = self._whole.grouping.operators(group.inside)
        if Counter(of) != Counter(pattern.nodes) or sum(op in _ROUNDING for op in of) > 1:
            return False
        matcher = Matcher(pattern.terms, pattern.root, pattern.marks, self._terms, 0.0)
        return any(True for _ in matcher.all(term))

    def _without_scales(self, pattern: Pattern, found: GraphMatch) -> Iterator[GraphMatch]:
        """Offer the match with a factor in the input instead of the attribute."""
        for name, variables in self._families[pattern.call.op].scaled.items():
            for variable in variables:
                number = found.floats.get(name, 1.0)
                if number != 1:
                    term = self._terms.times(found.bound[variable], number)
                    yield GraphMatch({**found.bound, variable: term}, found.dims, {**found.floats, name: 1.0})

    def _remedy(self, call: PatternCall, group: Group) -> masks.MaskRemedy:
        """What makes runtimes agree on the mask."""
        elem_type = elem_type_of(call, MASK) if call.op == ("", "Attention") and len(call.inputs) > MASK else 0
        if elem_type not in FLOATS:
            return masks.MaskRemedy.NONE
        held = group.held[MASK]
        return masks.remedy(self._scope, [held.name, *([held.plus] if held.plus else [])], elem_type)

    def _save(self, group: Group) -> int:
        """How many nodes go, but for those that must, so that there are not more of them."""
        added = sum(bool(held.perm or held.plus or held.shape) for held in group.held.values())
        return 1 + len(self._whole.grouping.operators(group.inside)) - max(self._least, 1 + added)

    # --- what is known already ------------------------------------------------------------------------------

    def _remember(self, key: tuple[int, Op], found: Proposal | None, regions: Regions) -> None:
        """Keep a proposal for regions of the same state, if it consists of nothing else than what they consist of."""
        if found is None or any(self._nodes[at].op_type in MOVING for at in found.group.inside):
            return
        places = {"": -1, **regions.places}
        held = {variable: (of.name, of.plus) for variable, of in found.group.held.items()}
        if found.group.inside.issubset(regions.nodes) and all(a in places and b in places for a, b in held.values()):
            nodes = tuple(map(regions.nodes.index, found.group.inside))
            names = {variable: (places[a], places[b]) for variable, (a, b) in held.items()}
            self._known.recipes[key] = Recipe(found, nodes, names)

    def _again(self, index: int, key: tuple[int, Op], regions: Regions) -> Proposal | None:
        """What was proposed for another region of the same state, for this one."""
        recipe = self._known.recipes.get(key)
        if recipe is None:
            return None
        names = [*regions.places, ""]
        held = {
            variable: recipe.of.group.held[variable]._replace(name=names[a], plus=names[b])
            for variable, (a, b) in recipe.names.items()
        }
        group = Group(frozenset(regions.nodes[place] for place in recipe.nodes), held)
        return self._allow(index, recipe.of._replace(group=group))


def elem_type_of(call: PatternCall, index: int) -> int:
    given = call.inputs[index]
    return given.elem_type if isinstance(given, PatternTensor) else 0


def _is_single(value: float) -> bool:
    return isclose(value, patterns.single(value), rel_tol=1e-14)


class _FoundAxes(Mapping[str, Sequence[Axes]]):
    """The axes that occur in a term, by operator, not far from its root: looked for when they are asked for."""

    def __init__(self, terms: Terms, term: int):
        self._terms = terms
        self._term = term

    @cached_property
    def _found(self) -> dict[str, list[Axes]]:
        terms, found, front, seen = self._terms, dict[str, list[Axes]](), [self._term], {self._term}
        for _ in range(_DEPTH):
            for at in front:
                key = terms.keys[at]
                for name, value in key.parameters[:1] if key.kind == OP else ():
                    if name == "axes":
                        found.setdefault(key.name, []).append(value)
                if terms.is_op(at, "Reshape") and len(shape := key.parameter) == 3 and (size := terms.value(shape[1])):
                    found.setdefault("groups", []).append((int(size),))
            front = [inner for at in front for inner in terms.operands(at) if inner not in seen]
            seen.update(front)
        return found

    def __getitem__(self, operator: str) -> list[Axes]:
        return self._found[operator]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

"""What can be done to a model so that a backend runs it, each as a change of the goal that it is rewritten for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from opshift.passes.changes import Change, Result
from opshift.passes.errors import InvalidModel, Refusal
from opshift.passes.goals import Goal
from opshift.passes.inlining import definable
from opshift.passes.inputs.wanted import Wanted, parse_wanted
from opshift.passes.model import imports, schemas
from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.model.traversal import Body, Op, bodies, census
from opshift.passes.specialization.door import functions_calling, unroll
from opshift.passes.stages.operator_names import parse_operator
from opshift.trying.search import Plan, Remedy
from opshift.trying.smallest import INPUTS
from opshift.trying.ways import (
    bounding,
    cropping,
    deciding,
    defaults,
    floating,
    leading,
    splitting,
    symbols,
)

AS_IT_IS = Remedy(0, "as it is")
"""The target's file is not asked."""
EXPAND = "expand"
SPLIT = "split"
BOUND = "bound"
OPSET = "opset"
TELL = "tell"
"""The compiler is given an option, which no model can hold."""
OPTIMIZE = "optimize"
SYMBOLS = "symbols"
CLAIMS = "claims"
ANNOTATE = "annotate"
FIX = "fix"
DEFAULTS = "defaults"
UNROLL = "unroll"
LEADING = "leading"
CROP = "crop"
FLOAT = "float"
SCALAR = "scalar"
FIXED = Remedy(5, FIX)
"""Every size that is no number becomes what it is in the inputs that the model is run on."""
_OPSETS = (18, 17, 15, 13, 11)
"""Opsets that importers were written for: newest first."""
_REWRITES = {
    SPLIT: splitting.split,
    BOUND: bounding.bound,
    DEFAULTS: defaults.plain,
    UNROLL: lambda model, op: _unroll(model, op),
    LEADING: leading.without_leading,
    CROP: cropping.crop,
    FLOAT: floating.in_floats,
    SCALAR: deciding.scalar,
}
"""What is done to all nodes of an operator, once the model is what it becomes otherwise."""
_WAYS = {
    SPLIT: splitting.SPLIT,
    BOUND: bounding.BOUNDED,
    LEADING: leading.BROADCAST,
    CROP: cropping.CROPS,
    FLOAT: floating.PRODUCTS,
    SCALAR: frozenset(deciding.CONDITIONS),
}
"""The operators for which there is one."""
_OF_GRAPHS = frozenset({SPLIT, BOUND, UNROLL, LEADING, CROP, FLOAT, SCALAR})
"""What is done in graphs alone, where types and sizes are known."""
_UNROLLED = frozenset({"Loop", "Scan"})
_MOST_TURNS = 1024
_WIDELY = 6
"""What came with this opset, or an older one, importers have: expanding it is of no use unless it is named."""


@dataclass(frozen=True)
class Remedies:
    """The remedies for one model and one goal; `feeds` are what the model is run on."""

    source: ModelProto
    goal: Goal
    folder: str | None
    feeds: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def helps(self, kind: str) -> Iterator[Remedy]:
        """What may help where an operator (`Name` or `domain::Name`) is at fault."""
        if kind == INPUTS:
            yield from self._renaming()
            return
        op = parse_operator(kind)
        if not op[0] and defaults.has_default(self.source, op[1]):
            yield Remedy(1, DEFAULTS, kind)
        if definable.is_defined(*op) and kind not in self.goal.names:
            yield _expanding(1, kind)
        yield from (Remedy(1, way, kind) for way, ops in _WAYS.items() if not op[0] and op[1] in ops)
        if not op[0] and op[1] in _UNROLLED:
            yield from (Remedy(1, UNROLL, name) for name in self._list_unrolled(op[1]))
        if not op[0]:
            since = schemas.since("", op[1], self.opset) or 1
            if since > min(schemas.versions("", op[1]), default=1):
                yield Remedy(2, OPSET, str(since - 1), OPSET)

    def _list_unrolled(self, op: str) -> Iterator[str]:
        """List the operators to unroll: a Loop may stand for a Scan that the backend lacks."""
        backend = self.goal.backend
        if op == "Loop" and backend is not None and not backend.has("", "Scan", self.opset):
            yield "Scan"
        yield op

    def general(self) -> Iterator[Remedy]:
        """What may help anywhere."""
        yield from (Remedy(0, TELL, option) for option in self.options)
        yield from self._expand_lacking()
        yield from self._renaming()
        if any(body.value_info for body in bodies(self.source)):
            yield Remedy(1, CLAIMS, slot=CLAIMS)
        if not self.goal.annotate:
            yield Remedy(1, ANNOTATE, slot=CLAIMS)
        if not self.goal.refinement.optimize:
            yield Remedy(2, OPTIMIZE)
        for opset in _OPSETS:
            if opset < self.opset:
                yield Remedy(3, OPSET, str(opset), OPSET)

    @cached_property
    def fix_sizes(self) -> ModelProto:
        """The source with all that is fixed in it."""
        return self.goal.fix_sizes(self.source)

    @property
    def rewriting(self) -> Goal:
        """The goal for parts of the result."""
        return Goal(backend=self.goal.backend, refinement=self.goal.refinement)

    def parts(self, remedy: Remedy) -> list[Remedy]:
        """Sizes that are fixed, one by one; anything else as it is."""
        if remedy != FIXED:
            return [remedy]
        return [Remedy(FIXED.cost, FIX, text) for text in symbols.sizes(self.fix_sizes, self.feeds)]

    def find_fixed_sizes(self, plan: Plan) -> Wanted:
        """The sizes that are fixed by a plan, beside those that are wanted."""
        texts = [part.what for remedy in plan if remedy.kind == FIX for part in self.parts(remedy)]
        more, held = parse_wanted(texts), self.goal.fixed
        return replace(held, shapes={**held.shapes, **more.shapes}, sizes={**held.sizes, **more.sizes})

    def _renaming(self) -> Iterator[Remedy]:
        if not symbols.are_plain(self.fix_sizes):
            yield Remedy(1, SYMBOLS)

    def _expand_lacking(self) -> Iterator[Remedy]:
        """What the target's file says is missing, and can be expanded: the file may have been left aside."""
        backend = self.goal.backend
        for domain, op in sorted({(normalize_domain(d), op) for d, op in census(self._bodies)[1]}):
            if backend is not None and not backend.has(domain, op, self.opset) and definable.is_defined(domain, op):
                yield _expanding(1, f"{domain}::{op}" if domain else op)

    def rest(self) -> Iterator[Remedy]:
        """All that can be expanded, and that an importer may not have."""
        for domain, op in sorted({(normalize_domain(d), op) for d, op in census(self._bodies)[1]}):
            if min(schemas.versions(domain, op), default=99) > _WIDELY and definable.is_defined(domain, op):
                yield _expanding(4, f"{domain}::{op}" if domain else op)

    @property
    def opset(self) -> int:
        """That of the model, as it goes to the backend unless something is done about it."""
        own = imports.opsets(self.source).get("", schemas.latest())
        newest = self.goal.backend.opset if self.goal.backend is not None else 0
        return min(own, newest or own)

    @property
    def _bodies(self) -> list[Body]:
        return [*self.source.functions, self.source.graph]

    def apply(self, plan: Plan) -> Result:
        """What becomes of the model by a plan; what cannot be expanded is left as it is."""
        asked = {remedy.what for remedy in plan if remedy.kind == EXPAND}
        names = set(asked)
        while True:
            goal = replace(self._goal(plan, names), fixed=self.find_fixed_sizes(plan))
            result = self._apply_to_result(self._attempt(self.source, goal), plan)
            refused = {refusal.operator for refusal in result.refusals} & names
            if result.model is not None or not refused:
                return self._late(result, plan, asked - names)
            names -= refused

    def _apply_to_result(self, result: Result, plan: Plan) -> Result:
        kinds = {remedy.kind for remedy in plan}
        if result.model is not None and SYMBOLS in kinds:
            result = replace(result, model=symbols.plain(result.model))
        if result.model is not None and CLAIMS in kinds:
            for body in bodies(result.model):
                del body.value_info[:]
        for remedy in sorted(plan):
            if remedy.kind in _REWRITES and result.model is not None:
                model, changes = _REWRITES[remedy.kind](result.model, remedy.what)
                result = replace(result, model=model, changes=(*result.changes, *changes))
        return result

    def _late(self, result: Result, plan: Plan, names: set[str]) -> Result:
        """With what can be expanded now that other things are written out: ranks may follow from these."""
        if result.model is None or not names or not any(remedy.kind in _REWRITES for remedy in plan):
            return result
        own = self.rewriting if AS_IT_IS not in plan else replace(self.rewriting, backend=None)
        for name in sorted(names):
            later = self._attempt(result.model, replace(own, names=(name,)))
            if later.model is not None:
                result = replace(later, changes=(*result.changes, *later.changes))
        return result

    def _goal(self, plan: Plan, names: set[str]) -> Goal:
        held = {remedy.kind: remedy for remedy in plan}
        rewritten = {parse_operator(remedy.what) for remedy in plan if remedy.kind in _OF_GRAPHS}
        goal = replace(self.goal, names=(*self.goal.names, *sorted(names), *self._holding(rewritten)))
        if ANNOTATE in held:
            goal = replace(goal, annotate=True)
        if OPTIMIZE in held:
            goal = replace(goal, refinement=replace(goal.refinement, optimize=True))
        goal = _keeping(goal, {remedy.what for remedy in plan if remedy.kind == UNROLL})
        opset = int(held[OPSET].what) if OPSET in held else 0
        if AS_IT_IS.kind in held or goal.backend is None:
            targets = {**goal.targets, "": opset} if opset else goal.targets
            return replace(goal, backend=None, targets=targets, refinement=replace(goal.refinement, backend=None))
        return replace(goal, backend=replace(goal.backend, opset=opset)) if opset else goal

    def _holding(self, ops: set[Op]) -> list[str]:
        """The functions in which some operators are called, or that call such: they are inlined, and then rewritten."""
        calling = functions_calling(self.source, ops)
        return [f"{domain}::{name}" if domain else name for domain, name in calling]

    def _attempt(self, model: ModelProto, goal: Goal) -> Result:
        """What a goal makes."""
        try:
            return goal.run(model, self.folder)
        except (InvalidModel, ValueError) as error:
            return Result(None, (), (Refusal("", "model", "", 0, False, str(error)),))


def _keeping(goal: Goal, ops: set[str]) -> Goal:
    """The goal for a backend as if it had some operators, which are written out afterwards."""
    if goal.backend is None:
        return goal
    lacks = {op: since for op, since in goal.backend.lacks.items() if op[0] or op[1] not in ops}
    return replace(goal, backend=replace(goal.backend, lacks=lacks))


def _unroll(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    done = unroll(model, _MOST_TURNS, frozenset({op}))
    return done.model, list(done.changes)


def list_options(plan: Plan) -> tuple[str, ...]:
    """The options that the compiler is given by a plan."""
    return tuple(sorted(remedy.what for remedy in plan if remedy.kind == TELL))


def _expanding(cost: int, op: str) -> Remedy:
    return Remedy(cost, EXPAND, op, f"{EXPAND} {op}")

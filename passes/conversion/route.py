"""Where nodes have to get, and what the next move of each is on its way there."""

from __future__ import annotations

from enum import Enum

from opshift.passes.analysis.scope import Scope
from opshift.passes.conversion.transitions import needs_work, next_edge, too_early
from opshift.passes.conversion.work import Versions, Within, Work
from opshift.passes.errors import CannotConvert
from opshift.passes.inlining.expander import Expander
from opshift.passes.model import schemas
from opshift.passes.model.kinds import Kind
from opshift.passes.model.legality import Judge
from opshift.passes.model.messages import default_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.passes.model.validity import is_theirs
from opshift.passes.records import dataclass
from opshift.passes.rewrite import registry

from opshift import functions

_TENSORS_SINCE = 9
"""The version of Constant from which on no step changes one that holds a tensor of a type that it takes."""


class Plan(Enum):
    """What is to be done about all nodes of a kind."""

    KEEP = "the operator has the same version at both ends, and such a call is legal there"
    JUDGE = "the same, but whether it is legal hangs on its attributes, or it is not"
    DESCEND = "it may hold subgraphs, and may change"
    CLIMB = "it holds none; it changes, is expanded, or cannot exist at the target"


@dataclass(frozen=True)
class Arrived:
    """The node's operator means the same here as at the target."""


@dataclass(frozen=True)
class Cross:
    """The node has to cross the boundary below version `edge` of its operator."""

    edge: int
    up: bool


@dataclass(frozen=True)
class Inline:
    """The node becomes its definition: the one that was registered, else a function."""

    definition: registry.OnRequest | None


Move = Arrived | Cross | Inline


class Route:
    """The way of the nodes of one body to the versions in `targets`, by domain.

    A domain that does not move stays at its version in `home`: what is inlined here is taken there, too.
    """

    def __init__(self, targets: Versions, home: Versions, expander: Expander):
        self.home = home
        self._targets = targets
        self._expander = expander
        self._plain: dict[tuple[Op, int], Move] = {}  # the moves that hang on the operator and its version alone

    def target(self, domain: str, version: int) -> int:
        """The version to reach in a domain: the one asked for, else the one that the body imports."""
        return self._targets.get(domain) or self.home.get(domain, version)

    def plan(self, versions: Versions, kind: Kind, judge: Judge) -> Plan:
        """What is to be done about nodes of a kind that are written at `versions`."""
        domain, op = default_domain(kind.domain), kind.op
        version = versions.get(domain, 0)
        if self._expander.wants(domain, op):
            return Plan.CLIMB
        opset = self.target(domain, version)
        at, goal = schemas.since(domain, op, version), schemas.since(domain, op, opset)
        if (goal is None or too_early(op, at)) and schemas.known_domain(domain):
            return Plan.CLIMB
        if schemas.has_subgraphs(domain, op):
            return Plan.DESCEND
        if needs_work(domain, op, at or 0, goal or 0):
            return Plan.CLIMB
        if kind.attributes or (opset and judge.why(kind.domain, op, kind.inputs, kind.outputs, (), opset)):
            return Plan.JUDGE
        return Plan.KEEP

    def tensors_kept(self, versions: Versions) -> frozenset[int]:
        """The element types of tensors that a Constant, written at `versions`, holds at the target as it does here."""
        at = versions.get("", 0)
        opset = self.target("", at)
        if min(at, opset) < _TENSORS_SINCE or self._expander.wants("", "Constant"):
            return frozenset()
        held = schemas.schema("", "Constant", opset)
        formal = held.output(0) if held is not None else None
        return frozenset(ELEMENT_TYPES[text] for text in formal.types) if formal is not None else frozenset()

    def next_move(self, work: Work, scope: Scope) -> Move:
        """What is to be done to a node next; raises `CannotConvert` where it can get no further."""
        domain, op = of = work.op
        version = work.version
        if (of, version) in self._plain:
            return self._plain[of, version]
        target = self.target(domain, version)
        first = min(schemas.versions(domain, op), default=0)
        wanted = self._expander.wants(domain, op)
        if is_theirs(domain, op, version) and (theirs := registry.definition(schemas.ONNXRUNTIME, op)) is not None:
            return Inline(theirs)
        if wanted and any(o == of and (schemas.since(*o, version) or 0) >= v for o, v in work.within):
            raise CannotConvert(work.node(scope, version), _circle(op, work.within))
        if wanted or target < first:
            definition = registry.definition(domain, op) if wanted else None
            stop = self._expander.opset(work.proto, scope, version)
            if definition is not None:
                stop = version if domain else definition.opset or version
            if stop is not None and schemas.since(domain, op, version) == schemas.since(domain, op, stop):
                return Inline(definition)
            target = self._below(work, scope, target, first) if stop is None else stop
            return self._towards(work, scope, target)
        return self._plain.setdefault((of, version), self._towards(work, scope, target))

    def _towards(self, work: Work, scope: Scope, target: int) -> Move:
        """The move of a node to a version of its domain."""
        (domain, op), version = work.op, work.version
        at, goal = schemas.since(domain, op, version), schemas.since(domain, op, target)
        if schemas.known_domain(domain) and ((goal is None and at is None) or too_early(op, at)):
            raise CannotConvert(work.node(scope, version), _unknown(domain, op, version))
        if at == goal:
            return Arrived()
        return Cross(next_edge(domain, op, at or 0, goal or 0), (goal or 0) > (at or 0))

    def _below(self, work: Work, scope: Scope, target: int, first: int) -> int:
        """The version to go to for want of a definition that takes the call; `first` is that of its operator."""
        domain, op = work.op
        if registry.step(domain, op, first) is not None:
            return first - 1
        if first > 1 and functions.defined(domain, op) and schemas.since(domain, op, work.version) != first:
            return first  # which took fewer types: the one that no definition takes may be gone there
        node = work.node(scope, work.version)
        lacking = "there is no definition of this operator to inline"
        if target < first:
            lacking = f"the operator exists from opset {first} on and has no definition in older operators"
        refused = CannotConvert(node, self._expander.misfit(node) or lacking)
        raise refused.at(first, up=False) if target < first else refused


def _circle(op: str, within: Within) -> str:
    """Which definitions need each other, so that none of them is free of operators that are to go."""
    names = [name for (_, name), _ in within]
    way = " needs ".join([*names[names.index(op) :], op])
    return f"its definition leads back to it: {way}"


def _unknown(domain: str, op: str, version: int) -> str:
    known = schemas.versions(domain, op)
    if not known and is_theirs(domain, op, version):
        return "it is onnxruntime's own operator in the default domain, and has no definition here"
    if not known:
        return f"ONNX defines no operator of this name in domain {domain or 'ai.onnx'!r}"
    return f"the operator exists from opset {known[0]} on, but the model imports opset {version}"

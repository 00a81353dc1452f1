"""Decide the next move of a node on its way to the target."""

from __future__ import annotations

from enum import Enum

from opshift.passes.analysis.scope import Scope
from opshift.passes.conversion.transitions import needs_work, next_edge, too_early
from opshift.passes.conversion.work import Versions, Within, Work
from opshift.passes.errors import CannotConvert
from opshift.passes.inlining.expander import Expander
from opshift.passes.model import schemas
from opshift.passes.model.call_signatures import CallSignature
from opshift.passes.model.legality import LegalityJudge
from opshift.passes.model.messages import normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.passes.model.validity import is_runtime_extension
from opshift.passes.records import dataclass
from opshift.passes.rewrite import registry

from opshift import functions

_TENSORS_SINCE = 9
"""From this version on, no step changes a Constant whose tensor has an accepted type."""


class CallPlan(Enum):
    """What to do with all nodes of a kind."""

    KEEP = "nothing: the operator has the same version at both ends, and the call is legal there"
    JUDGE = "look whether the call is legal: that depends on its attributes"
    DESCEND = "convert the subgraphs that it may hold, then the node"
    CONVERT = "convert, expand or refuse it; it holds no subgraphs"


@dataclass(frozen=True)
class Arrived:
    """The node is done: its operator means the same at the target."""


@dataclass(frozen=True)
class Cross:
    """The node has to cross the boundary below version `edge` of its operator."""

    edge: int
    up: bool


@dataclass(frozen=True)
class Inline:
    """The node is replaced by its definition: a registered step, or a function."""

    definition: registry.OnRequest | None


Move = Arrived | Cross | Inline


class Route:
    """Decides the moves of nodes in one graph or function, given target opsets by domain.

    Nodes of a domain without a target stay at its version in `home`. Definitions that are inlined are taken there, too.
    """

    def __init__(self, targets: Versions, home: Versions, expander: Expander):
        self.home = home
        self._targets = targets
        self._expander = expander
        self._moves: dict[tuple[Op, int], Move] = {}  # moves that depend on the operator and its version alone

    def target(self, domain: str, version: int) -> int:
        """The opset to reach in a domain: its target, or else what the body imports."""
        return self._targets.get(domain) or self.home.get(domain, version)

    def plan(self, versions: Versions, signature: CallSignature, judge: LegalityJudge) -> CallPlan:
        """Decide what nodes of a kind need: nothing, a check, or a conversion. Asked once for each kind of node."""
        domain, op = normalize_domain(signature.domain), signature.op
        version = versions.get(domain, 0)
        if self._expander.wants(domain, op):
            return CallPlan.CONVERT
        opset = self.target(domain, version)
        at, goal = schemas.since(domain, op, version), schemas.since(domain, op, opset)
        if (goal is None or too_early(op, at)) and schemas.is_onnx_domain(domain):
            return CallPlan.CONVERT
        if schemas.has_subgraphs(domain, op):
            return CallPlan.DESCEND
        if needs_work(domain, op, at or 0, goal or 0):
            return CallPlan.CONVERT
        if signature.attributes or (
            opset and judge.why(signature.domain, op, signature.inputs, signature.outputs, (), opset)
        ):
            return CallPlan.JUDGE
        return CallPlan.KEEP

    def tensors_kept(self, versions: Versions) -> frozenset[int]:
        """The element types of Constants that need no change. Asked once for each body."""
        at = versions.get("", 0)
        opset = self.target("", at)
        if min(at, opset) < _TENSORS_SINCE or self._expander.wants("", "Constant"):
            return frozenset()
        schema = schemas.schema("", "Constant", opset)
        formal = schema.output(0) if schema is not None else None
        return frozenset(ELEMENT_TYPES[text] for text in formal.types) if formal is not None else frozenset()

    def next_move(self, work: Work, scope: Scope) -> Move:
        """Decide what is done next with a node. The worklist asks until the answer is `Arrived`.

        - `Inline`: write the operator's definition in its place: the user or the backend wants the operator
          expanded, or the target opset does not have it.
        - `Cross`: change the node from one version of its operator to the next one up or down.
        - `Arrived`: its version means the same at the target opset.

        Raises:
            CannotConvert: the operator is not at the target opset and has no definition there, or its definition
                needs the operator itself.
        """
        domain, op = work.op
        version = work.version
        if (work.op, version) in self._moves:
            return self._moves[work.op, version]
        target = self.target(domain, version)
        first = min(schemas.versions(domain, op), default=0)
        is_wanted = self._expander.wants(domain, op)
        if is_runtime_extension(domain, op, version):
            vendor_definition = registry.definition(schemas.ONNXRUNTIME, op)
            if vendor_definition is not None:
                return Inline(vendor_definition)
        if not is_wanted and target >= first:
            return self._moves.setdefault((work.op, version), self._move_towards(work, scope, target))
        if is_wanted and any(o == work.op and (schemas.since(*o, version) or 0) >= v for o, v in work.within):
            raise CannotConvert(work.node(scope, version), _explain_circle(op, work.within))
        definition = registry.definition(domain, op) if is_wanted else None
        opset = self._expander.opset(work.proto, scope, version)  # at which the definition is written
        if definition is not None:
            opset = version if domain else definition.opset or version
        if opset is None:
            return self._move_towards(work, scope, self._version_without_definition(work, scope, target, first))
        if schemas.since(domain, op, version) == schemas.since(domain, op, opset):
            return Inline(self._definition_for_target(definition))
        return self._move_towards(work, scope, opset)

    def _definition_for_target(self, definition: registry.OnRequest | None) -> registry.OnRequest | None:
        """Return the definition, or its alternative if the target lacks an operator that it needs."""
        if definition is None or definition.otherwise is None:
            return definition
        needs, opset = definition.needs, self.target("", definition.opset)
        lacking = schemas.since("", needs, opset) is None or self._expander.wants("", needs)
        return definition.otherwise if lacking else definition

    def _move_towards(self, work: Work, scope: Scope, target: int) -> Move:
        """Find the next move towards a version of the operator; `Arrived` if the node has that version."""
        (domain, op), version = work.op, work.version
        at, goal = schemas.since(domain, op, version), schemas.since(domain, op, target)
        if schemas.is_onnx_domain(domain) and ((goal is None and at is None) or too_early(op, at)):
            raise CannotConvert(work.node(scope, version), _explain_unknown(domain, op, version))
        if at == goal:
            return Arrived()
        return Cross(next_edge(domain, op, at or 0, goal or 0), (goal or 0) > (at or 0))

    def _version_without_definition(self, work: Work, scope: Scope, target: int, first: int) -> int:
        """Find the version to go to if no definition accepts the call; refuse the node if there is none.

        Either below the operator's first version, by a step; or down to the first version, where the call may have
        types that a definition accepts.
        """
        domain, op = work.op
        if registry.step(domain, op, first) is not None:
            return first - 1
        if first > 1 and functions.has_definition(domain, op) and schemas.since(domain, op, work.version) != first:
            return first
        node = work.node(scope, work.version)
        is_basic = schemas.schema(domain, op, work.version) is not None
        lacking = "it is a basic operator: there is nothing simpler to replace it with"
        if not is_basic:
            lacking = "opshift has no definition of this operator, and the model has no function for it"
        if target < first:
            lacking = f"it is new in opset {first}, and older operators cannot express it"
        fix = "--fix-shape, as sizes are constants then" if op == "Shape" and not domain else ""
        refused = CannotConvert(node, self._expander.misfit(node) or lacking, fix=fix)
        raise refused.at(first, up=False) if target < first else refused


def _explain_circle(op: str, within: Within) -> str:
    """Explain a refusal: the definition of an operator needs the operator itself."""
    names = [name for (_, name), _ in within]
    way = " needs ".join([*names[names.index(op) :], op])
    return f"its definition needs the operator itself: {way}"


def _explain_unknown(domain: str, op: str, version: int) -> str:
    """Explain why an operator's version cannot be converted: ONNX does not have it, or not at this opset.

    Used in a refusal.
    """
    known = schemas.versions(domain, op)
    if not known and is_runtime_extension(domain, op, version):
        return "it is an operator of onnxruntime that ONNX does not define"
    if not known:
        return f"ONNX has no operator of this name in domain {domain or 'ai.onnx'!r}"
    return f"it is new in opset {known[0]}, but the model imports opset {version}"

"""Looks for operators that are written out in one body, and puts them there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opshift.passes.changes import GRANTED, Allowance, Change
from opshift.passes.fusion import emission, families, masks
from opshift.passes.fusion.emission import Emission
from opshift.passes.fusion.group import Group, Grouping, Held, Uses
from opshift.passes.fusion.patterns import PatternCall, PatternTensor, Splat
from opshift.passes.fusion.proposals import MASK, Permits, Proposal, Proposals, RegionKnowledge, elem_type_of
from opshift.passes.fusion.reader import Reader
from opshift.passes.model.messages import NodeProto, TensorProto, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import Dim
from opshift.passes.rewrite.builder import Builder

T = TensorProto
_STEPS = 12  # nodes between an operator's anchor and its result
_OFTEN = (
    "Abs Add Cast Clip Concat Div Equal Erf Exp Einsum Identity IsNaN Less Log MatMul Max Min Mul Neg Pow Reciprocal "
    "ReduceMax ReduceMean ReduceSum ReduceSumSquare Relu Reshape Sigmoid Sqrt Squeeze Sub Sum Tanh Transpose "
    "Unsqueeze Where"
)
_BETWEEN = frozenset(_OFTEN.split())
"""What may stand between an anchor and the result."""
_NEVER_EMPTY = frozenset(("", op) for op in ("Attention", "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization"))
"""What onnxruntime 1.31 does not run where a size is 0."""


class PatternSearch:
    """Looks for written-out operators in one body."""

    def __init__(
        self,
        reader: Reader,
        ops: Sequence[Op],
        least: int,
        allowance: Allowance,
        pinned: set[str],
        known: RegionKnowledge,
    ):
        self._reader = reader
        self._scope = reader.scope
        self._terms = reader.terms
        self._nodes = reader.scope.body.node
        self._ops = ops
        self._families = {op: found for op in ops if (found := families.family(op)) is not None}
        self._allowance = allowance
        self._taken: dict[int, list[NodeProto]] = {}
        self._made: dict[tuple[str, str], str] = {}
        self._written_before: dict[tuple[Any, ...], NodeProto] = {}
        """Calls that stand for themselves, by what they are but for their inputs."""
        self._added: dict[int, list[NodeProto]] = {}
        """Nodes that stand behind a node; those at -1 before all."""
        self._uses = Uses(reader.scope.body, pinned=set(pinned))
        self._grouping = Grouping(reader, self._uses)
        permits = _permission(self._nodes, allowance)
        self._proposals = Proposals(reader, self._uses, self._families, least, known, permits)

    def find_replacements(self) -> dict[int, list[NodeProto]]:
        """The nodes that take the places of others, by index; from the end of the graph on, so that the largest win."""
        suspects = self._suspects()
        if suspects:
            self._scope.spread_elem_types()
        for index in sorted(suspects, reverse=True):
            if index not in self._taken:
                own = normalize_domain(self._nodes[index].domain), self._nodes[index].op_type
                ops = [op for op in self._ops if op in suspects[index] and op != own]
                if (found := self._proposals.first(index, ops, self._taken)) is not None:
                    self._replace(index, found)
        for index, nodes in self._added.items():
            if index < 0:
                self._taken[0] = [*nodes, *self._taken.get(0, self._nodes[:1])]
            else:
                self._taken[index] = [*self._taken.get(index, [self._nodes[index]]), *nodes]
        return self._taken

    def _beside(self, name: str, key: str, make: Callable[[Builder], str]) -> str:
        """What is made of a value once, beside it, for all that need it."""
        if (name, key) not in self._made:
            build = Builder(self._scope, self._reader.opset)
            self._made[name, key] = make(build)
            self._added.setdefault(self._uses.makers.get(name, -1), []).extend(build.nodes)
        return self._made[name, key]

    def _make_input(self, build: Builder, held: Held, elem_type: int) -> str:
        """The name of an input, after the nodes that make it."""
        name = held.name
        if held.perm:
            return str(build.Transpose(name, perm=list(held.perm)))
        if held.plus:
            return str(build.Add(name, held.plus))
        if held.behind:
            return emission.reshape_value(build, name, [-1])
        if held.op:
            return self._beside(name, held.op, lambda made: str(made.emit(held.op, [name])))
        if held.half:
            return emission.first_half(build, name, elem_type)
        return emission.reshape_value(build, name, held.shape) if held.shape else name

    def _suspects(self) -> dict[int, set[Op]]:
        """The nodes that may make the result of an operator: those behind its anchors."""
        alike: dict[frozenset[str], list[Op]] = {}
        for op in self._ops:
            alike.setdefault(self._families[op].anchors, []).append(op)
        found: dict[int, set[Op]] = {}
        types = self._uses.ops
        following: dict[int, list[int]] = {}
        for anchors, ops in alike.items():
            standing = [
                index
                for index, op in enumerate(types)
                if op in anchors and not normalize_domain(self._nodes[index].domain)
            ]
            for index in self._behind(standing, types, following) if anchors else range(len(types)):
                found.setdefault(index, set()).update(ops)
        return found

    def _behind(self, indices: Sequence[int], types: Sequence[str], following: dict[int, list[int]]) -> Iterable[int]:
        """These nodes and those that read their first outputs, a few steps on; `following` holds one step of each."""
        reached, front, made = set(indices), indices, self._uses.made
        for _ in range(_STEPS):
            beyond: list[int] = []
            for at in front:
                users = following.get(at)
                if users is None:
                    readers = self._uses.users.get(made[at][0], ()) if made[at] else ()
                    users = [user for user in readers if types[user] in _BETWEEN]
                    following[at] = users
                for user in users:
                    if user not in reached:
                        reached.add(user)
                        beyond.append(user)
            front = beyond
        return reached

    def _raise(self, build: Builder, name: str, held: Held, elem_type: int) -> str:
        """A mask without the lowest number: made once for all that read it."""
        if held != Held(name):
            return masks.raise_lowest(build, name, elem_type)
        return self._beside(name, "raised", lambda beside: masks.raise_lowest(beside, name, elem_type))

    def _write_call(
        self, proposal: Proposal, old: NodeProto, shapes: Sequence[Sequence[Dim] | None]
    ) -> list[NodeProto]:
        """The call, behind what is made for it."""
        pattern, group, remedy = proposal.pattern, proposal.group, proposal.remedy
        call = pattern.call
        build = Builder(self._scope, call.opset, old)
        inputs: list[str | list[int] | None] = []
        for i, given in enumerate(call.inputs):
            if isinstance(given, Splat):
                inputs.append("")
            elif isinstance(given, PatternTensor):
                inputs.append(self._make_input(build, group.held[i], given.elem_type))
            else:
                inputs.append(None if given is None else list(given))
        if remedy is masks.MaskRemedy.RAISED:
            inputs[MASK] = self._raise(build, str(inputs[MASK]), group.held[MASK], elem_type_of(call, MASK))
        floats = {name: proposal.floats.get(name) for name in call.marks}
        written = Emission(build, call, inputs, {**dict(call.attributes), **floats}, shapes, self._beside)
        emission.canonicalize(call.op, written)
        build.emit(call.op[1], written.inputs, written.attributes, domain=call.op[0])
        return build.nodes

    def _alike(self, proposal: Proposal, key: tuple[Any, ...]) -> NodeProto | None:
        """The call as one of the same pattern was written before, where neither needs anything made for it."""
        call, held, first = proposal.pattern.call, proposal.group.held, self._written_before.get(key)
        if first is None or any(one != Held(one.name) for one in held.values()):
            return None
        if any(name and at not in held for at, name in enumerate(first.input)):  # constants of the pattern's own
            return None
        inputs = [held[i].name if i in held else "" for i in range(len(first.input))]
        return NodeProto(op_type=call.op[1], domain=call.op[0], input=inputs, attribute=first.attribute)

    def _replace(self, index: int, proposal: Proposal) -> None:
        pattern, group, remedy = proposal.pattern, proposal.group, proposal.remedy
        call, old = pattern.call, self._nodes[index]
        shaped = emission.has_rule(call.op) or call.op in _NEVER_EMPTY
        shapes = self._grouping.shapes(pattern, group.held) if shaped else []
        key = _key(proposal, shapes)
        alike = self._alike(proposal, key)
        nodes = [alike] if alike is not None else self._write_call(proposal, old, shapes)
        made = nodes[-1]
        given = [group.held[at].name if at in group.held else name for at, name in enumerate(made.input)]
        if len(nodes) == 1 and given == list(made.input) and remedy is masks.MaskRemedy.NONE:
            self._written_before[key] = made
        made.output[:] = old.output[:1]
        made.name, made.doc_string = old.name, old.doc_string
        if hasattr(old, "metadata_props"):
            made.metadata_props.extend(old.metadata_props)
        for at in group.inside:
            self._taken[at] = []
            self._scope.context.released.update(self._uses.read[at])
        self._taken[index] = nodes
        exact = proposal.is_literal
        remark = "" if exact else _remark(call, remedy)
        if self._leans(group) or (call.op in _NEVER_EMPTY and not _are_numbers(shapes)):
            exact, remark = False, f"{remark}; {GRANTED}" if remark else GRANTED
        self._allowance.made.append(
            Change(
                made.name or old.output[0],
                call.op[1],
                call.op[0],
                call.opset,
                call.opset,
                proposal.how,
                "exact" if exact else "close",
                remark,
            )
        )

    def _leans(self, group: Group) -> bool:
        """Whether the nodes are known to compute the operator for sizes of 1 or more alone."""
        if not self._reader.granted:
            return False
        names = {name for at in group.inside for node in (self._nodes[at],) for name in (*node.input, *node.output)}
        return not names.isdisjoint(self._reader.granted)


def _permission(nodes: Sequence[NodeProto], allowance: Allowance) -> Permits:
    """What asks whether a proposal may be made; it holds no search, which would hold it in turn and never be freed."""

    def permits(index: int, proposal: Proposal) -> bool:
        node, op = nodes[index], proposal.pattern.call.op[1]
        return allowance.permits(node.name or node.output[0], op, proposal.how)

    return permits


def _key(proposal: Proposal, shapes: Sequence[Sequence[Dim] | None]) -> tuple[Any, ...]:
    """All that the form of a call hangs on, but for its inputs: patterns are never forgotten."""
    told = (None if shape is None else tuple(shape) for shape in shapes)
    return id(proposal.pattern), tuple(proposal.floats.items()), *told


def _are_numbers(shapes: Iterable[Sequence[Dim] | None]) -> bool:
    """Whether all of some shapes are known, and none has a 0."""
    return all(shape is not None and all(isinstance(dim, int) and dim for dim in shape) for shape in shapes)


def _remark(call: PatternCall, remedy: masks.MaskRemedy) -> str:
    if remedy is masks.MaskRemedy.RAISED:
        return "the operator may round otherwise; raised the lowest number in the mask"
    if call.op == ("", "Attention") and len(call.inputs) > MASK:
        return (
            "the operator may round otherwise; a query that attends to no key yields 0, where Softmax yields NaN or "
            "the mean of all values"
        )
    return "the operator may round otherwise than its definition"

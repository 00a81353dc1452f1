"""Looks for operators that are written out in one body, and puts them there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isclose

from opshift.passes.changes import GRANTED, Allowance, Change
from opshift.passes.fusion import emission, families, masks, patterns
from opshift.passes.fusion.cuts import Cuts, Known, View
from opshift.passes.fusion.emission import Emission
from opshift.passes.fusion.families import Clues
from opshift.passes.fusion.group import LARGEST, Group, Grouping, Held, Uses
from opshift.passes.fusion.keys import OP, PRODUCT, SUM
from opshift.passes.fusion.match import Found, Matcher
from opshift.passes.fusion.patterns import Axes, Call, Pattern, Splat, Tensor
from opshift.passes.fusion.reader import FLOATS, Reader
from opshift.passes.fusion.terms import Terms
from opshift.passes.model.messages import NodeProto, TensorProto, default_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import Dim
from opshift.passes.rewrite.builder import Builder

T = TensorProto
_STEPS = 12  # nodes between an operator's anchor and its result
_NEAR = 32  # nodes of a region; those of operators that are asked for by name may be larger
_REACHED = 48  # results that are looked at for one anchor
_DEPTH = 6  # how far from the root of a term axes are looked for
_TOLERANCES: dict[int, float] = {T.DOUBLE: 1e-9, T.FLOAT: 2e-6, T.FLOAT16: 1e-3, T.BFLOAT16: 8e-3}
"""How far a constant may be from the definition's: a few roundings of its type."""
_OFTEN = (
    "Abs Add Cast Clip Concat Div Equal Erf Exp Einsum Identity IsNaN Less Log MatMul Max Min Mul Neg Pow Reciprocal "
    "ReduceMax ReduceMean ReduceSum ReduceSumSquare Relu Reshape Sigmoid Sqrt Squeeze Sub Sum Tanh Transpose "
    "Unsqueeze Where"
)
_BETWEEN = frozenset(_OFTEN.split())
"""What may stand between an anchor and the result."""
_POSITIVE = {"Attention": ("scale",), "Celu": ("alpha",)}
"""Floats for which the operator is its definition only where they are more than 0; for all others epsilon."""
_MASK = 3  # the place of the mask among the inputs of Attention
_NEVER_EMPTY = frozenset(("", op) for op in ("Attention", "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization"))
"""What onnxruntime 1.31 does not run where a size is 0."""
_ROUNDING = frozenset(("Add", "Cast", "Div", "Mul", "Pow", "Reciprocal", "Sqrt", "Sub", "Sum"))


@dataclass(frozen=True)
class Proposal:
    """A call that may take the place of some nodes."""

    pattern: Pattern
    found: Found
    group: Group
    remedy: masks.Remedy
    worth: int
    """How many nodes it saves."""
    view: View


class Search:
    """Looks for written-out operators in one body."""

    def __init__(
        self, reader: Reader, ops: Sequence[Op], least: int, allowance: Allowance, pinned: set[str], known: Known
    ):
        self._reader = reader
        self._least = least  # nodes that an operator takes the place of
        self._scope = reader.scope
        self._terms = reader.terms
        self._nodes = reader.scope.body.node
        self._ops = ops
        self._families = {op: found for op in ops if (found := families.family(op)) is not None}
        self._allowance = allowance
        self._taken: dict[int, list[NodeProto]] = {}
        self._made: dict[tuple[str, str], str] = {}
        self._added: dict[int, list[NodeProto]] = {}
        """Nodes that stand behind a node; those at -1 before all."""
        self._uses = Uses(reader.scope.body, pinned=set(pinned))
        self._grouping = Grouping(reader, self._uses)
        self._known = known
        self._cuts = Cuts(reader, self._uses, known, _NEAR if least > 1 else LARGEST)

    def taken(self) -> dict[int, list[NodeProto]]:
        """The nodes that take the places of others, by index; from the end of the graph on, so that the largest win."""
        suspects = self._suspects()
        for index in sorted(suspects, reverse=True):
            if index not in self._taken:
                self._fold(index, suspects[index])
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

    def _is_literal(self, index: int, proposal: Proposal, of: list[str]) -> bool:
        """Whether the nodes are the definition's own, and too few of them round for their order to matter."""
        pattern, term = proposal.pattern, proposal.view.reader.term(self._nodes[index].output[0])
        matcher = Matcher(pattern.terms, pattern.root, pattern.marks, self._terms, 0.0)
        rounding = [op for op in of if op in _ROUNDING]
        return Counter(of) == Counter(pattern.nodes) and len(rounding) < 2 and any(True for _ in matcher.all(term))

    def _made_of(self, build: Builder, held: Held, kind: int) -> str:
        """The name of an input, after the nodes that make it."""
        name = held.name
        if held.perm:
            return str(build.Transpose(name, perm=list(held.perm)))
        if held.plus:
            return str(build.Add(name, held.plus))
        if held.behind:
            return emission.reshaped(build, name, [-1])
        if held.op:
            return self._beside(name, held.op, lambda made: str(made.emit(held.op, [name])))
        if held.half:
            return emission.first_half(build, name, kind)
        return emission.reshaped(build, name, held.shape) if held.shape else name

    def _suspects(self) -> dict[int, set[Op]]:
        """The nodes that may make the result of an operator: those behind its anchors."""
        anchored: dict[str, list[Op]] = {}
        for op in self._ops:
            for anchor in self._families[op].anchors:
                anchored.setdefault(anchor, []).append(op)
        anywhere = {op for op in self._ops if not self._families[op].anchors}
        found = {index: set(anywhere) for index in range(len(self._nodes))} if anywhere else dict[int, set[Op]]()
        for index, node in enumerate(self._nodes):
            if node.op_type in anchored and not default_domain(node.domain):
                for reached in self._behind(index):
                    found.setdefault(reached, set()).update(anchored[node.op_type])
        return found

    def _behind(self, index: int) -> Iterable[int]:
        reached, front = {index}, [index]
        for _ in range(_STEPS):
            front = [
                user
                for at in front
                for name in self._nodes[at].output[:1]
                for user in self._uses.users.get(name, ())
                if user not in reached and self._nodes[user].op_type in _BETWEEN
            ]
            reached.update(front)
            if not front or len(reached) > _REACHED:
                break
        return reached

    def _fold(self, index: int, ops: set[Op]) -> None:
        node = self._nodes[index]
        kind = self._reader.kind(node.output[0])
        if len(node.output) != 1 or kind not in FLOATS:
            return
        views = [View(self._reader, self._uses, region) for region in self._cuts.above(index, self._taken)]
        whole = View(self._reader, self._uses)
        for op in self._ops:
            if op in ops and op != (default_domain(node.domain), node.op_type):
                found = self._largest(index, kind, op, views) or self._proposal(index, kind, op, whole)
                if found is not None:
                    self._replace(index, found)
                    return

    def _largest(self, index: int, kind: int, op: Op, views: Sequence[View]) -> Proposal | None:
        """The call that takes the place of most nodes, read in one of the regions above a result."""
        best: Proposal | None = None
        worth, anchors = self._known.worth, self._families[op].anchors
        seen = [view for view in views if worth.get((view.state, op)) != 0]
        for view in sorted(seen, key=lambda view: worth.get((view.state, op), len(self._nodes)), reverse=True):
            if best is not None and worth.get((view.state, op), len(self._nodes)) <= best.worth:
                break
            if anchors and anchors.isdisjoint(view.operators):
                worth[view.state, op] = 0
                continue
            found = self._proposal(index, kind, op, view)
            if found is not None and (best is None or found.worth > best.worth):
                best = found
        return best

    def _proposal(self, index: int, kind: int, op: Op, view: View) -> Proposal | None:
        """The call of an operator whose result the node makes, read in some view."""
        worth, name = 0, self._nodes[index].output[0]
        term = view.reader.term(name)
        if self._terms.keys[term].kind in (OP, PRODUCT, SUM):
            dims = self._reader.shape(name)
            rank, size = (None, None) if dims is None else (len(dims), dims[-1] if dims else None)
            clues = Clues(self._reader.opset, kind, rank, _Axes(self._terms, term), size)
            for call in self._families[op].suggest(op, clues):
                pattern = patterns.pattern(call)
                for found in () if pattern is None else self._matches(term, kind, pattern):
                    group = view.grouping.group(index, pattern, found, self._taken)
                    if group is None or (saved := self._saved(group)) <= 0:
                        continue
                    worth = max(worth, saved)
                    remedy = self._remedy(call, group) if view.grouping.fits(index, pattern, group) else masks.Remedy.NO
                    if remedy is not masks.Remedy.NO and self._may(index, pattern, group):
                        self._known.worth[view.state, op] = saved
                        return Proposal(pattern, found, group, remedy, saved, view)
        self._known.worth[view.state, op] = worth
        return None

    def _matches(self, term: int, kind: int, pattern: Pattern) -> Iterator[Found]:
        """The ways in which a term is a pattern, of which the operator is its definition."""
        own, other = pattern.terms.keys[pattern.root], self._terms.keys[term]
        if own.kind != other.kind or (own.kind == OP and own.name != other.name):
            return
        positive = _POSITIVE.get(pattern.call.op[1], ("epsilon",))
        for found in Matcher(pattern.terms, pattern.root, pattern.marks, self._terms, _TOLERANCES[kind]).all(term):
            if any(found.floats.get(name, 1.0) <= 0 for name in positive):
                continue
            if kind == T.DOUBLE and not all(map(_is_single, found.floats.values())):
                continue  # attributes are float32
            yield from (found, *self._unscaled(pattern, found))

    def _may(self, index: int, pattern: Pattern, group: Group) -> bool:
        node, op = self._nodes[index], pattern.call.op[1]
        return self._allowance.permits(node.name or node.output[0], op, self._how(op, group))

    def _how(self, op: str, group: Group) -> str:
        return f"{op} from {', '.join(self._grouping.operators(group.inside))}"

    def _saved(self, group: Group) -> int:
        """How many nodes go, but for those that must, so that there are not more of them."""
        added = sum(bool(held.perm or held.plus or held.shape) for held in group.held.values())
        return 1 + len(self._grouping.operators(group.inside)) - max(self._least, 1 + added)

    def _unscaled(self, pattern: Pattern, found: Found) -> Iterator[Found]:
        """The same with a number at an input that has no name without it, and not in the float."""
        for name, variables in self._families[pattern.call.op].scaled.items():
            for variable in variables:
                number = found.floats.get(name, 1.0)
                if number != 1:
                    term = self._terms.scaled(found.bound[variable], number)
                    yield Found({**found.bound, variable: term}, found.dims, {**found.floats, name: 1.0})

    def _remedy(self, call: Call, group: Group) -> masks.Remedy:
        """What makes runtimes agree on the mask."""
        kind = _kind_of(call, _MASK) if call.op == ("", "Attention") and len(call.inputs) > _MASK else 0
        if kind not in FLOATS:
            return masks.Remedy.NONE
        held = group.held[_MASK]
        return masks.remedy(self._scope, [held.name, *([held.plus] if held.plus else [])], kind)

    def _raised(self, build: Builder, name: str, held: Held, kind: int) -> str:
        """A mask without the lowest number: made once for all that read it."""
        if held != Held(name):
            return masks.raised(build, name, kind)
        return self._beside(name, "raised", lambda beside: masks.raised(beside, name, kind))

    def _replace(self, index: int, proposal: Proposal) -> None:
        pattern, found, group, remedy = proposal.pattern, proposal.found, proposal.group, proposal.remedy
        call, old = pattern.call, self._nodes[index]
        build = Builder(self._scope, call.opset, old)
        inputs: list[str | list[int] | None] = []
        for i, given in enumerate(call.inputs):
            if isinstance(given, Splat):
                inputs.append("")
            elif isinstance(given, Tensor):
                inputs.append(self._made_of(build, group.held[i], given.kind))
            else:
                inputs.append(None if given is None else list(given))
        if remedy is masks.Remedy.RAISED:
            inputs[_MASK] = self._raised(build, str(inputs[_MASK]), group.held[_MASK], _kind_of(call, _MASK))
        floats = {name: found.floats.get(name) for name in call.marks}
        shapes = proposal.view.grouping.shapes(pattern, group.held)
        written = Emission(build, call, inputs, {**dict(call.attributes), **floats}, shapes, self._beside)
        emission.canonicalize(call.op, written)
        build.emit(call.op[1], written.inputs, written.attributes, domain=call.op[0])
        made = build.nodes[-1]
        made.output[:] = old.output[:1]
        made.name, made.doc_string = old.name, old.doc_string
        if hasattr(old, "metadata_props"):
            made.metadata_props.extend(old.metadata_props)
        for at in group.inside:
            self._taken[at] = []
            self._scope.context.released.update(self._nodes[at].input)
        self._taken[index] = build.nodes
        of = self._grouping.operators(group.inside)
        exact = pattern.grade == "exact" and self._is_literal(index, proposal, of)
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
                self._how(call.op[1], group),
                "exact" if exact else "close",
                remark,
            )
        )

    def _leans(self, group: Group) -> bool:
        """Whether the nodes are known to compute the operator for sizes of 1 or more alone."""
        names = {name for at in group.inside for node in (self._nodes[at],) for name in (*node.input, *node.output)}
        return not names.isdisjoint(self._reader.granted)


def _are_numbers(shapes: Iterable[Sequence[Dim] | None]) -> bool:
    """Whether all of some shapes are known, and none has a 0."""
    return all(shape is not None and all(isinstance(dim, int) and dim for dim in shape) for shape in shapes)


def _kind_of(call: Call, index: int) -> int:
    given = call.inputs[index]
    return given.kind if isinstance(given, Tensor) else 0


def _is_single(value: float) -> bool:
    return isclose(value, patterns.single(value), rel_tol=1e-14)


def _remark(call: Call, remedy: masks.Remedy) -> str:
    if remedy is masks.Remedy.RAISED:
        return "the operator may round otherwise; the lowest number in the mask, which some take for -inf, is raised"
    if call.op == ("", "Attention") and len(call.inputs) > _MASK:
        return (
            "the operator may round otherwise; a query that may attend no key yields 0, where Softmax yields NaN, "
            "or the mean of all values if the mask holds the lowest number there"
        )
    return "the operator may round otherwise than its definition"


class _Axes(Mapping[str, Sequence[Axes]]):
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
                if key.kind == OP and key.parameters and key.parameters[0][0] == "axes":
                    found.setdefault(key.name, []).append(key.parameter)
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

"""Folding: what an operator's definition looks like when it is written out becomes the operator again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opshift.passes import patterns, schemas, tidy
from opshift.passes.algebra import NUMBER, ONES, OP, PRODUCT, SUM, TENSOR, VECTOR, Terms
from opshift.passes.build import Builder
from opshift.passes.changes import Change
from opshift.passes.convert import Result, check_imports, opsets
from opshift.passes.expand import Op
from opshift.passes.fits import fits
from opshift.passes.match import Found, Matcher
from opshift.passes.names import Body, census, subgraphs, with_nested
from opshift.passes.patterns import Clues, Pattern, Tensor
from opshift.passes.protos import FunctionProto, ModelProto, NodeProto, TensorProto, default_domain, put
from opshift.passes.scope import Context, Dim, Scope
from opshift.passes.terms import FLOATS, Reader

T = TensorProto
_STEPS = 12  # nodes between an operator's anchor and its result
_REACHED = 48  # results that are looked at for one anchor
_DEPTH = 6  # how far from the root of a term axes are looked for
_LARGEST = 96  # nodes of a definition that is written out
_TOLERANCES = {T.DOUBLE: 1e-9, T.FLOAT: 2e-6, T.FLOAT16: 1e-3, T.BFLOAT16: 8e-3}
"""How far a constant may be from the definition's: a few roundings of its type."""
_WIDTHS = {T.DOUBLE: 53, T.FLOAT: 24, T.FLOAT16: 11, T.BFLOAT16: 8}

_OFTEN = (
    "Abs Add Cast Clip Concat Div Equal Erf Exp Identity IsNaN Less Log MatMul Max Min Mul Neg Pow Reciprocal "
    "ReduceMax ReduceMean ReduceSum ReduceSumSquare Relu Reshape Sigmoid Sqrt Squeeze Sub Sum Tanh Transpose Unsqueeze Where"
)
_BETWEEN = frozenset(_OFTEN.split())
"""What may stand between an anchor and the result."""


def attempt(
    source: ModelProto, *, ops: Iterable[Op] | None = None, lacking: Iterable[Op] = (), folder: str | None = None
) -> Result:
    """Fold a copy of `source` at the opsets that it imports: each group of nodes that computes one operator becomes it.

    `ops` are the operators to bring in (all that the opset has, if None), `lacking` those that must not come in.
    `folder` is where external data lie. Values that are used elsewhere or are graph outputs stay. Nothing is refused.

    Raises:
        InvalidModel: the model's opset imports are missing, contradict each other or are unknown.
    """
    check_imports(source)
    before = census(source)
    model = ModelProto()
    model.CopyFrom(source)
    wanted = [op for op in (patterns.FAMILIES if ops is None else dict.fromkeys(ops)) if op not in set(lacking)]
    called = {op for domain, op in before.calls if not default_domain(domain)}
    wanted = [op for op in wanted if op in patterns.FAMILIES and not called.isdisjoint(patterns.FAMILIES[op].anchors)]
    changes: list[Change] = []
    if wanted:
        context = Context(model, source, folder)
        for body, versions in [(model.graph, opsets(model)), *((f, opsets(f)) for f in model.functions)]:
            opset = versions.get("", 0)
            _Folder(context, [op for op in wanted if _exists(op, opset)], opset, changes).body(body)
        tidy.drop_unused(model, context.released)
    return Result(model, tuple(changes), (), before.calls, census(model).calls if changes else before.calls)


@dataclass
class _Uses:
    """Who uses what in one body."""

    body: Body
    makers: dict[str, int] = field(default_factory=dict)
    users: dict[str, list[int]] = field(default_factory=dict)
    pinned: set[str] = field(default_factory=set)
    """Values that are read by others than the nodes of this very body."""

    def __post_init__(self) -> None:
        for index, node in enumerate(self.body.node):
            for name in node.output:
                self.makers[name] = index
            for name in node.input:
                self.users.setdefault(name, []).append(index)
            for _, _, graph in subgraphs(node) if node.attribute else ():
                for inner in with_nested([graph]):
                    self.pinned.update(name for held in inner.node for name in held.input)
                    self.pinned.update(_results(inner))
        self.pinned.update(_results(self.body))


def _results(body: Body) -> list[str]:
    return list(body.output) if isinstance(body, FunctionProto) else [value.name for value in body.output]


class _Folder:
    """Folds bodies whose nodes are written at the same opset."""

    def __init__(self, context: Context, ops: Sequence[Op], opset: int, changes: list[Change]):
        self._context = context
        self._ops = ops
        self._opset = opset
        self._changes = changes
        self._terms = Terms()

    def body(self, body: Body) -> None:
        """Fold in a main graph or a function, and in the graphs nested in it."""
        path = None if isinstance(body, FunctionProto) else ()
        pending: list[tuple[Scope, Reader | None]] = [(Scope(body, self._context, self._opset, path=path), None)]
        found: list[tuple[Body, dict[int, list[NodeProto]]]] = []
        while pending:
            scope, outer = pending.pop()
            reader = Reader(self._terms, scope, outer)
            for node in scope.body.node:
                reader.read(node)
            found.append((scope.body, _Search(reader, self._ops, self._changes).taken()))
            for index, node in enumerate(scope.body.node):
                for attribute, k, graph in subgraphs(node) if node.attribute else ():
                    inner = None if scope.path is None else (*scope.path, (index, attribute, k))
                    pending.append((Scope(graph, self._context, self._opset, scope, inner), reader))
        for held, taken in found:
            if taken:
                put(held.node, taken)


class Held(NamedTuple):
    """What an input of the new node gets: a value, or its transpose."""

    name: str
    perm: tuple[int, ...] = ()


class _Turned(NamedTuple):
    perm: tuple[int, ...]
    term: int


class _Search:
    """Looks for written-out operators in one body."""

    def __init__(self, reader: Reader, ops: Sequence[Op], changes: list[Change]):
        self._reader = reader
        self._scope = reader.scope
        self._terms = reader.terms
        self._nodes = reader.scope.body.node
        self._ops = ops
        self._changes = changes
        self._taken: dict[int, list[NodeProto]] = {}
        self._uses = _Uses(reader.scope.body)

    def taken(self) -> dict[int, list[NodeProto]]:
        """The nodes that take the places of others, by index; from the end of the graph on, so that the largest win."""
        suspects = self._suspects()
        for index in sorted(suspects, reverse=True):
            if index not in self._taken:
                self._fold(index, suspects[index])
        return self._taken

    def _suspects(self) -> dict[int, set[Op]]:
        """The nodes that may make the result of an operator: those behind its anchors."""
        anchored: dict[str, list[Op]] = {}
        for op in self._ops:
            for anchor in patterns.FAMILIES[op].anchors:
                anchored.setdefault(anchor, []).append(op)
        found: dict[int, set[Op]] = {}
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
        term, kind = self._reader.term(node.output[0]), self._reader.kind(node.output[0])
        if self._terms.keys[term][0] not in (OP, PRODUCT, SUM) or kind not in FLOATS:
            return
        clues = Clues(self._reader.opset, kind, self._reader.rank(node.output[0]), _axes(self._terms, term))
        for op in self._ops:
            if op in ops and op != (default_domain(node.domain), node.op_type):
                for call in patterns.FAMILIES[op].suggest(op, clues):
                    pattern = patterns.pattern(call)
                    if pattern is not None and self._as_call(index, term, kind, pattern):
                        return

    def _as_call(self, index: int, term: int, kind: int, pattern: Pattern) -> bool:
        matcher = Matcher(pattern.terms, pattern.root, pattern.marks, self._terms, _TOLERANCES[kind])
        for found in matcher.all(term):
            group = self._group(index, kind, pattern, found)
            if group is not None:
                self._replace(index, pattern, found, *group)
                return True
        return False

    def _group(self, index: int, kind: int, pattern: Pattern, found: Found) -> tuple[set[int], dict[int, Held]] | None:
        """The nodes between the variables and the result, and what the variables hold; None if they leave a gap."""
        wanted = {term: self._wanted(pattern, variable) for variable, term in found.bound.items()}
        turned = {term: self._turned(term) for term in wanted}
        wanted |= {of.term: wanted[term] for term, of in turned.items() if of is not None}
        names: dict[int, str] = {}
        inside, pending = {index}, list(self._nodes[index].input)
        while pending:
            name = pending.pop()
            if not name:
                continue
            term = self._reader.term(name)
            if term in wanted and self._reader.kind(name) == wanted[term]:
                names.setdefault(term, name)
                continue
            at = self._uses.makers.get(name)
            if self._terms.keys[term][0] in _HELD:
                continue
            if at is None or at in self._taken:
                return None
            if at in inside:
                continue
            maker = self._nodes[at]
            if len(inside) >= _LARGEST or default_domain(maker.domain) or len(maker.output) > 1:
                return None
            if self._is_narrower(maker.output[0], kind):
                return None
            inside.add(at)
            pending += maker.input
        if not self._is_closed(index, inside):
            return None
        held: dict[int, Held] = {}
        for variable, term in found.bound.items():
            of = turned[term]
            if term in names:
                held[variable] = Held(names[term])
            elif of is not None and of.term in names:
                held[variable] = Held(names[of.term], of.perm)
            else:
                return None
        return (inside, held) if self._fits(index, pattern, held) else None

    def _wanted(self, pattern: Pattern, variable: int) -> int:
        """The element type of what a variable stands for."""
        given = pattern.call.inputs[variable]
        assert isinstance(given, Tensor), "variables stand for tensors"
        return given.kind

    def _turned(self, term: int) -> _Turned | None:
        """What a term is a Transpose of."""
        key = self._terms.keys[term]
        return _Turned(key[2][0][1], key[3][0]) if self._terms.is_op(term, "Transpose") else None

    def _is_narrower(self, name: str, kind: int) -> bool:
        own = self._reader.kind(name)
        return own in FLOATS and _WIDTHS[own] < _WIDTHS[kind]

    def _is_closed(self, index: int, inside: set[int]) -> bool:
        """Whether nobody else reads what the nodes make, but for the result."""
        for at in inside - {index}:
            for name in self._nodes[at].output:
                if name in self._uses.pinned or not inside.issuperset(self._uses.users.get(name, ())):
                    return False
        return True

    def _fits(self, index: int, pattern: Pattern, held: dict[int, Held]) -> bool:
        shapes = [self._shape(held[i]) if i in held else None for i in range(len(pattern.call.inputs))]
        result = self._scope.shape(self._nodes[index].output[0])
        return fits(pattern.call, shapes, result)

    def _shape(self, held: Held) -> list[Dim] | None:
        shape = self._scope.shape(held.name)
        return [shape[axis] for axis in held.perm] if shape is not None and held.perm else shape

    def _replace(self, index: int, pattern: Pattern, found: Found, inside: set[int], held: dict[int, Held]) -> None:
        call, old = pattern.call, self._nodes[index]
        build = Builder(self._scope, call.opset, old)
        inputs: list[str | list[int] | None] = []
        for i, given in enumerate(call.inputs):
            if isinstance(given, Tensor):
                of = held[i]
                inputs.append(str(build.Transpose(of.name, perm=list(of.perm))) if of.perm else of.name)
            else:
                inputs.append(None if given is None else list(given))
        given_floats = {name: found.floats.get(name) for name in call.marks}
        build.emit(call.op[1], inputs, {**dict(call.attributes), **given_floats}, domain=call.op[0])
        made = build.nodes[-1]
        made.output[:] = old.output[:1]
        made.name, made.doc_string = old.name, old.doc_string
        if hasattr(old, "metadata_props"):
            made.metadata_props.extend(old.metadata_props)
        for at in inside:
            self._taken[at] = []
            self._scope.context.released.update(self._nodes[at].input)
        self._taken[index] = build.nodes
        of = [self._nodes[at].op_type for at in sorted(inside) if self._nodes[at].op_type not in _SILENT]
        exact = pattern.grade == "exact" and Counter(of) == Counter(pattern.nodes)
        self._changes.append(
            Change(
                made.name or old.output[0],
                call.op[1],
                call.op[0],
                call.opset,
                call.opset,
                f"{call.op[1]} from {', '.join(of)}",
                "exact" if exact else "close",
                "" if exact else "the operator may round otherwise than its definition",
            )
        )


_HELD = frozenset((NUMBER, ONES, TENSOR, VECTOR))
_SILENT = frozenset(("Identity", "Constant"))


def _axes(terms: Terms, term: int) -> dict[str, list[tuple[int, ...]]]:
    """The axes that occur in a term, by operator, not far from its root."""
    found: dict[str, list[tuple[int, ...]]] = {}
    front, seen = [term], {term}
    for _ in range(_DEPTH):
        for at in front:
            key = terms.keys[at]
            if key[0] == OP and key[2] and key[2][0][0] == "axes":
                found.setdefault(key[1], []).append(key[2][0][1])
        front = [inner for at in front for inner in terms.operands(at) if inner not in seen]
        seen.update(front)
    return found


def _exists(op: Op, opset: int) -> bool:
    return bool(op[0]) or schemas.since(*op, opset) is not None

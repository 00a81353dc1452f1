"""Folding: what an operator's definition looks like when it is written out becomes the operator again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opshift.passes import forms, patterns, schemas, tidy
from opshift.passes.algebra import NUMBER, ONES, OP, PRODUCT, SUM, TENSOR, VECTOR, Terms
from opshift.passes.build import Builder
from opshift.passes.changes import Change
from opshift.passes.convert import Result, check_imports, opsets
from opshift.passes.expand import Op
from opshift.passes.fits import fits
from opshift.passes.forms import Form
from opshift.passes.match import Found, Matcher
from opshift.passes.names import Body, census, subgraphs, with_nested
from opshift.passes.patterns import Clues, Pattern, Splat, Tensor
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
    "ReduceMax ReduceMean ReduceSum ReduceSumSquare Relu Reshape Sigmoid Sqrt Squeeze Sub Sum Tanh Transpose "
    "Unsqueeze Where"
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
    _, before = census([source.graph, *source.functions])
    model = ModelProto()
    model.CopyFrom(source)
    wanted = [op for op in (patterns.FAMILIES if ops is None else dict.fromkeys(ops)) if op not in set(lacking)]
    called = {op for domain, op in before if not default_domain(domain)}
    wanted = [op for op in wanted if op in patterns.FAMILIES and not called.isdisjoint(patterns.FAMILIES[op].anchors)]
    changes: list[Change] = []
    if wanted:
        context = Context(model, source, folder)
        for body, versions in [(model.graph, opsets(model)), *((f, opsets(f)) for f in model.functions)]:
            opset = versions.get("", 0)
            _Folder(context, [op for op in wanted if _exists(op, opset)], opset, changes).body(body)
        tidy.drop_unused(model, context.released)
    after = census([model.graph, *model.functions])[1] if changes else before
    return Result(model, tuple(changes), (), before, after)


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
                put(held, taken)


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


class _Moved(NamedTuple):
    term: int
    perm: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    plus: int = -1
    behind: int = 0
    half: bool = False
    op: str = ""


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
        self._made: dict[tuple[str, str], str] = {}
        self._added: dict[int, list[NodeProto]] = {}
        """Nodes that stand behind a node; those at -1 before all."""
        self._uses = _Uses(reader.scope.body)

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

    def _made_of(self, build: Builder, held: Held, kind: int) -> str:
        """The name of an input, after the nodes that make it."""
        name = held.name
        if held.perm:
            return str(build.Transpose(name, perm=list(held.perm)))
        if held.plus:
            return str(build.Add(name, held.plus))
        if held.behind:
            return forms.reshaped(build, name, [-1])
        if held.op:
            return self._beside(name, held.op, lambda made: str(made.emit(held.op, [name])))
        if held.half:
            return forms.first_half(build, name, kind)
        return forms.reshaped(build, name, held.shape) if held.shape else name

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
        dims = self._reader.shape(node.output[0])
        rank, size = (None, None) if dims is None else (len(dims), dims[-1] if dims else None)
        clues = Clues(self._reader.opset, kind, rank, _axes(self._terms, term), size)
        for op in self._ops:
            if op in ops and op != (default_domain(node.domain), node.op_type):
                for call in patterns.FAMILIES[op].suggest(op, clues):
                    pattern = patterns.pattern(call)
                    if pattern is not None and self._as_call(index, term, kind, pattern):
                        return

    def _as_call(self, index: int, term: int, kind: int, pattern: Pattern) -> bool:
        matcher = Matcher(pattern.terms, pattern.root, pattern.marks, self._terms, _TOLERANCES[kind])
        for found in matcher.all(term):
            if any(found.floats.get(name, 1.0) <= 0 for name in _POSITIVE.get(pattern.call.op[1], ("epsilon",))):
                continue
            for read in (found, *self._unscaled(pattern, found)):
                group = self._group(index, kind, pattern, read)
                if group is not None:
                    self._replace(index, pattern, read, *group)
                    return True
        return False

    def _unscaled(self, pattern: Pattern, found: Found) -> Iterator[Found]:
        """The same with a number at an input that has no name without it, and not in the float."""
        for name, variables in patterns.FAMILIES[pattern.call.op].scaled.items():
            for variable in variables:
                number = found.floats.get(name, 1.0)
                if number != 1:
                    term = self._terms.scaled(found.bound[variable], number)
                    yield Found({**found.bound, variable: term}, found.dims, {**found.floats, name: 1.0})

    def _group(self, index: int, kind: int, pattern: Pattern, found: Found) -> tuple[set[int], dict[int, Held]] | None:
        """The nodes between the variables and the result, and what the variables hold; None if they leave a gap."""
        wanted = {term: self._wanted(pattern, variable) for variable, term in found.bound.items()}
        turned = {term: self._moved(term) for term in wanted}
        for term, of in turned.items():
            if of is not None:
                wanted = {of.term: wanted[term], **({of.plus: wanted[term]} if of.plus >= 0 else {}), **wanted}
        names: dict[int, str] = {}
        doubled: list[str] = []
        inside, pending = {index}, list(self._nodes[index].input)
        while pending:
            name = pending.pop()
            if not name:
                continue
            term = self._reader.term(name)
            if term in wanted and self._reader.kind(name) == wanted[term]:
                names.setdefault(term, name)
                continue
            if pattern.shares and self._terms.is_op(term, "Twice"):
                doubled.append(name)
                continue
            at = self._uses.makers.get(name)
            if self._terms.keys[term][0] in _HELD:
                continue
            if at is None or at in self._taken:
                return None
            if at in inside:
                continue
            maker = self._nodes[at]
            if (
                len(inside) >= _LARGEST
                or default_domain(maker.domain)
                or (len(maker.output) > 1 and maker.op_type != "Split")
            ):
                return None
            if self._is_narrower(maker.output[0], kind):
                return None
            inside.add(at)
            pending += maker.input
        if not self._is_closed(index, inside) or len(self._operators(inside)) < 2:
            return None
        for name in self._above(doubled):
            names.setdefault(self._reader.term(name), name)
        held: dict[int, Held] = {}
        for variable, term in found.bound.items():
            of = turned[term]
            if term in names:
                held[variable] = Held(names[term])
            elif of is not None and of.term in names and (of.plus < 0 or of.plus in names):
                held[variable] = Held(
                    names[of.term], of.perm, of.shape, names.get(of.plus, ""), of.behind, of.half, of.op
                )
            else:
                return None
        return (inside, held) if self._fits(index, pattern, held) else None

    def _above(self, names: list[str]) -> Iterator[str]:
        """Values and what they are computed from, not far above."""
        seen, front = set(names), names
        for _ in range(_DEPTH):
            front = [
                above
                for name in front
                if (at := self._uses.makers.get(name)) is not None
                for above in self._nodes[at].input
                if above and above not in seen
            ]
            seen.update(front)
            yield from front

    def _wanted(self, pattern: Pattern, variable: int) -> int:
        """The element type of what a variable stands for."""
        given = pattern.call.inputs[variable]
        assert isinstance(given, Tensor), "variables stand for tensors"
        return given.kind

    def _moved(self, term: int) -> _Moved | None:
        """What a term is a Transpose, a Reshape or a sum of, where a node can make it again."""
        key = self._terms.keys[term]
        if self._terms.is_op(term, "Transpose"):
            return _Moved(key[3][0], perm=key[2][0][1])
        if key[0] == SUM and not key[1] and len(key[2]) == 2 and all(c == 1 for _, c in key[2]):
            return _Moved(key[2][0][0], plus=key[2][1][0])
        if self._terms.is_op(term, "Half"):
            return _Moved(key[3][0], half=True)
        if self._terms.is_op(term, "Cos") or self._terms.is_op(term, "Sin"):
            return _Moved(key[3][0], op=key[1])
        if self._terms.is_op(term, "Vector"):
            return _Moved(key[3][0], behind=key[2][0][1])
        if self._terms.is_op(term, "Reshape"):
            sizes = [self._terms.value(dim) for dim in key[2][0][1]]
            if all(size is not None and size > 0 for size in sizes):
                return _Moved(key[3][0], shape=tuple(int(size) for size in sizes if size is not None))
        return None

    def _operators(self, inside: set[int]) -> list[str]:
        return [op for at in sorted(inside) if (op := self._nodes[at].op_type) not in _SILENT]

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
        return fits(pattern.call, self._shapes(pattern, held), self._reader.shape(self._nodes[index].output[0]))

    def _shapes(self, pattern: Pattern, held: dict[int, Held]) -> list[list[Dim] | None]:
        return [self._shape(held[i]) if i in held else None for i in range(len(pattern.call.inputs))]

    def _shape(self, held: Held) -> list[Dim] | None:
        if held.shape:
            return list(held.shape)
        if held.half:
            return forms.half_of(self._scope, held.name)
        if held.plus:
            return self._reader.broadcast(held.name, held.plus)
        if held.behind:
            dims = self._reader.shape(held.name)
            kept = None if dims is None else len(dims) - held.behind
            return dims[:kept] if dims is not None and dims[kept:] == [1] * held.behind else None
        shape = self._reader.shape(held.name)
        return [shape[axis] for axis in held.perm] if shape is not None and held.perm else shape

    def _replace(self, index: int, pattern: Pattern, found: Found, inside: set[int], held: dict[int, Held]) -> None:
        call, old = pattern.call, self._nodes[index]
        build = Builder(self._scope, call.opset, old)
        inputs: list[str | list[int] | None] = []
        for i, given in enumerate(call.inputs):
            if isinstance(given, Splat):
                inputs.append("")
            elif isinstance(given, Tensor):
                inputs.append(self._made_of(build, held[i], given.kind))
            else:
                inputs.append(None if given is None else list(given))
        floats = {name: found.floats.get(name) for name in call.marks}
        form = Form(build, call, inputs, {**dict(call.attributes), **floats}, self._shapes(pattern, held), self._beside)
        forms.settle(call.op, form)
        build.emit(call.op[1], form.inputs, form.attributes, domain=call.op[0])
        made = build.nodes[-1]
        made.output[:] = old.output[:1]
        made.name, made.doc_string = old.name, old.doc_string
        if hasattr(old, "metadata_props"):
            made.metadata_props.extend(old.metadata_props)
        for at in inside:
            self._taken[at] = []
            self._scope.context.released.update(self._nodes[at].input)
        self._taken[index] = build.nodes
        of = self._operators(inside)
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


_POSITIVE = {"Attention": ("scale",), "Celu": ("alpha",)}
"""Floats for which the operator is its definition only where they are more than 0; for all others epsilon."""
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
            if terms.is_op(at, "Reshape") and len(shape := key[2][0][1]) == 3 and (groups := terms.value(shape[1])):
                found.setdefault("groups", []).append((int(groups),))
        front = [inner for at in front for inner in terms.operands(at) if inner not in seen]
        seen.update(front)
    return found


def _exists(op: Op, opset: int) -> bool:
    return bool(op[0]) or schemas.since(*op, opset) is not None

"""What a model consists of: one walk over its nodes that tells kinds of calls apart, without a look at their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_validity, validity
from opshift.passes.model.encoding import node_bytes
from opshift.passes.model.encoding.node_bytes import Values
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto
from opshift.passes.model.traversal import Body, Census, census, graphless, subgraphs

_LONGEST = 256  # bytes of a call without its names: what is longer is hardly repeated
_MOST = 4096  # kinds that are told apart by their attributes' values


@dataclass(frozen=True, eq=False)
class Kind:
    """Calls of an operator with so many inputs, outputs and attributes; `same` if they differ in their names alone."""

    domain: str
    op: str
    inputs: int
    outputs: int
    attributes: int
    same: bool

    @property
    def graphless(self) -> bool:
        """Whether no such call holds a graph."""
        return not self.attributes or (not self.domain and self.op in graphless())


@dataclass
class Layout:
    """The kind of each node of a body, and the layouts of the graphs that nodes hold, by the node's index.

    `outdated` says that the body now holds other calls.
    """

    kinds: list[Kind] = field(default_factory=list)
    counts: Counter[Kind] = field(default_factory=Counter)
    inner: dict[int, list[Layout]] = field(default_factory=dict)
    outdated: bool = False
    values: Values = field(default_factory=Values)


Above = tuple[tuple[Layout, int], ...]
"""The layouts around a graph, and the node of each that holds it."""


class Survey:
    """The layouts of a model's bodies, how often each (domain, operator) is called, and how deep graphs are nested.

    With `checked`, also whether all is as ONNX allows.

    Raises:
        InvalidModel: it is not.
    """

    def __init__(self, model: ModelProto, *, checked: bool = False):
        self._same: dict[node_bytes.Key, Kind] = {}
        self._alike: dict[tuple[str, str, int, int, int], Kind] = {}
        self._valued = 0
        self._judges: dict[tuple[tuple[str, int], ...], Judge] = {}
        if checked:
            validity.check_header(model)
        judge = Judge(validity.Walk(model.ir_version, validity.imports(model))) if checked else None
        self.graph = self.layout(model.graph, judge)
        if judge is not None and not judge.sound:
            validity.check_graph(model)  # in order, to tell what comes first, if anything does
        checked = checked and model.ir_version >= validity.FUNCTIONS_SINCE
        self.functions = [self.layout(f, self._judge(model, f) if checked else None) for f in model.functions]
        if checked and not (all(judge.sound for judge in self._judges.values()) and _distinct(model.functions)):
            validity.check_functions(model)
        self.calls: Counter[tuple[str, str]] = Counter()
        self.depth = 0
        pending = [(layout, 0) for layout in (self.graph, *self.functions)]
        while pending:
            layout, depth = pending.pop()
            for kind, count in layout.counts.items():
                self.calls[kind.domain, kind.op] += count
            self.depth = max(self.depth, depth)
            pending += [(inner, depth + 1) for held in layout.inner.values() for inner in held]

    def layout(self, body: Body, judge: Judge | None = None) -> Layout:
        """The layout of a body and of all graphs that are nested in it, which a judge looks at."""
        found, apart = Layout(), graphless()
        held = list[Layout]()
        pending: list[tuple[Body, Layout, Above]] = [(body, found, ())]
        while pending:
            body, layout, above = pending.pop()
            if judge is not None:
                judge.frame(body, layout.values, main=not above)
            layout.kinds = node_bytes.read(body.node, apart, layout.values, self._same, self._kind)
            layout.counts = Counter(layout.kinds)
            if judge is not None:
                judge.nodes(body, layout, above)
                held.append(layout)
            holding = {kind for kind in layout.counts if not kind.graphless}
            for index in [index for index, kind in enumerate(layout.kinds) if kind in holding] if holding else ():
                graphs = [graph for _, _, graph in subgraphs(body.node[index])]
                layout.inner[index] = [Layout() for _ in graphs]
                around = ((layout, index), *above)
                pending += [(*one, around) for one in zip(graphs, layout.inner[index], strict=True)]
        if len(held) > 1 and judge is not None:
            judge.distinct(held)
        return found

    def census(self, model: ModelProto) -> Census:
        """The bodies of the model as it is now, and its calls; only those with an outdated layout are walked again."""
        held, calls = list[Body](), Counter[tuple[str, str]]()
        pending: list[tuple[Body, Layout]] = [*zip(model.functions, self.functions, strict=True)]
        pending = [*reversed(pending), (model.graph, self.graph)]
        while pending:
            body, layout = pending.pop()
            if layout.outdated:
                bodies, counted = census([body])
                held += bodies
                calls += counted
                continue
            held.append(body)
            for kind, count in layout.counts.items():
                calls[kind.domain, kind.op] += count
            for index, inner in layout.inner.items():
                pending += zip((graph for _, _, graph in subgraphs(body.node[index])), inner, strict=True)
        return held, calls

    def _kind(self, node: NodeProto, key: node_bytes.Key | None) -> Kind:
        form = node.domain, node.op_type, len(node.input), len(node.output), len(node.attribute)
        noted = node.doc_string or node.metadata_props
        if key and len(key[0]) <= _LONGEST and not noted and (not node.attribute or self._valued < _MOST):
            self._valued += bool(node.attribute)
            self._same[key] = kind = Kind(*form, same=True)
            return kind
        if form not in self._alike:
            self._alike[form] = Kind(*form, same=False)
        return self._alike[form]

    def _judge(self, model: ModelProto, function: FunctionProto) -> Judge:
        """The judge of the functions that import the same."""
        key = tuple([(entry.domain, entry.version) for entry in function.opset_import])
        if key not in self._judges:
            self._judges[key] = Judge(validity.Walk(model.ir_version, validity.imports(function)))
        return self._judges[key]


def _distinct(functions: Sequence[FunctionProto]) -> bool:
    return len({(f.domain, f.name, f.overload) for f in functions}) == len(functions)


class Judge:
    """Tells of bodies, from their layouts, whether they are surely as ONNX allows: each kind of call is, and each value
    is made once, and before it is read. What is not sure is left to a walk in order."""

    def __init__(self, walk: validity.Walk):
        self._walk = walk
        self._right: set[Kind] = set()
        self.sound = True

    def frame(self, body: Body, values: Values, *, main: bool) -> None:
        """Look at all of a body but its nodes; the names of its inputs and initializers are made without any."""
        if not self.sound:
            return
        try:
            names = self._names(body, main=main)
        except (InvalidModel, AttributeError):  # a name that is no text
            self.sound = False
            return
        values.made.update(dict.fromkeys(names, -1))
        values.given = len(values.made)

    def _names(self, body: Body, *, main: bool) -> Iterable[bytes]:
        if isinstance(body, FunctionProto):
            return [name.encode() for name in self._walk.formals(body)]
        if self._walk.is_early or body.sparse_initializer:
            return [name.encode() for name in self._walk.frame(body, main=main)]
        own = [name.encode() for name in self._walk.values(body, main=main)]
        held = tensor_validity.names(body.initializer) if body.initializer else []
        self.sound = held is not None and len(set(held)) == len(held)
        return own + (held or [])

    def nodes(self, body: Body, layout: Layout, above: Above) -> None:
        """Look at the nodes of a body, and at what they make and read."""
        try:
            self.sound = self.sound and self._calls_fit(body, layout) and self._names_fit(body, layout, above)
        except AttributeError:  # a name that is no text
            self.sound = False

    def _calls_fit(self, body: Body, layout: Layout) -> bool:
        at, looked, each = 0, set(layout.values.omitting), set[Kind]()
        for kind in layout.counts:  # in the order in which they come first
            if kind not in self._right:
                at = layout.kinds.index(kind, at)
                looked.add(at)
                (self._right if kind.same else each).add(kind)
        if each:
            looked.update(index for index, kind in enumerate(layout.kinds) if kind in each)
        return all(self._walk.passes(body.node[index]) for index in looked)

    def _names_fit(self, body: Body, layout: Layout, above: Above) -> bool:
        made = layout.values.made
        outputs = sum(kind.outputs * count for kind, count in layout.counts.items())
        omitted = [list(body.node[index].output).count("") for index in set(layout.values.omitting)]
        if outputs - sum(omitted) != len(made) - layout.values.given:
            return False
        for name in layout.values.early:
            if name and not any(one.values.made.get(name, at) < at for one, at in above):
                return False
        return isinstance(body, FunctionProto) or all(value.name.encode() in made for value in body.output)

    def distinct(self, layouts: Iterable[Layout]) -> None:
        """Look whether what several graphs make is called differently."""
        every = set[bytes]()
        every.update(*(layout.values.made for layout in layouts))
        self.sound = self.sound and len(every) == sum(len(layout.values.made) for layout in layouts)

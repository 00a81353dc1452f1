"""What a model consists of: one walk over its nodes that tells kinds of calls apart, without a look at their names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from opshift.passes import heads, valid
from opshift.passes.errors import InvalidModel
from opshift.passes.names import Body, Census, census, graphless, subgraphs
from opshift.passes.protos import GraphProto, ModelProto, NodeProto

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
    inner: dict[int, list[Layout]] = field(default_factory=dict)
    outdated: bool = False
    made: dict[bytes, int] = field(default_factory=dict)
    early: set[bytes] = field(default_factory=set)
    omitting: list[int] = field(default_factory=list)
    """Which node makes a value, the last one if there are more; what a node reads that none before it makes; and which
    nodes leave out an input or an output."""


class Survey:
    """The layouts of a model's bodies, how often each (domain, operator) is called, and how deep graphs are nested.

    With `checked`, also whether all is as ONNX allows.

    Raises:
        InvalidModel: it is not.
    """

    def __init__(self, model: ModelProto, *, checked: bool = False):
        self._walk = valid.Walk(model.ir_version, valid.imports(model)) if checked else None
        self._sound = True
        self._same: dict[tuple[bytes, int, int], Kind] = {}
        self._alike: dict[tuple[str, str, int, int, int], Kind] = {}
        if checked:
            valid.check_header(model)
        self.graph = self.layout(model.graph)
        if self._walk is not None:
            if not self._sound or not _sound(model.graph, self.graph, self._walk):
                valid.check_graph(model)  # in order, to tell what comes first, if anything does
            valid.check_functions(model)
            self._walk = None
        self.functions = [self.layout(function) for function in model.functions]
        self.calls: Counter[tuple[str, str]] = Counter()
        self.depth = 0
        pending = [(layout, 0) for layout in (self.graph, *self.functions)]
        while pending:
            layout, depth = pending.pop()
            for kind, count in Counter(layout.kinds).items():
                self.calls[kind.domain, kind.op] += count
            self.depth = max(self.depth, depth)
            pending += [(inner, depth + 1) for held in layout.inner.values() for inner in held]

    def layout(self, body: Body) -> Layout:
        """The layout of a body and of all graphs that are nested in it."""
        found = Layout()
        pending = [(body, found)]
        while pending:
            body, layout = pending.pop()
            layout.kinds = self._kinds(body, layout)
            holding = {kind for kind in set(layout.kinds) if not kind.graphless}
            for index in [index for index, kind in enumerate(layout.kinds) if kind in holding] if holding else ():
                graphs = [graph for _, _, graph in subgraphs(body.node[index])]
                layout.inner[index] = [Layout() for _ in graphs]
                pending += zip(graphs, layout.inner[index], strict=True)
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
            for kind, count in Counter(layout.kinds).items():
                calls[kind.domain, kind.op] += count
            for index, inner in layout.inner.items():
                pending += zip((graph for _, _, graph in subgraphs(body.node[index])), inner, strict=True)
        return held, calls

    def _kinds(self, body: Body, layout: Layout) -> list[Kind]:
        apart, same, found = graphless(), self._same.get, list[Kind]()
        made, early, omitting, without = layout.made, layout.early, layout.omitting, heads.without
        for number, node in enumerate(body.node):
            # graphs would be serialized once for each level of their nesting
            if node.op_type in apart or not node.attribute:
                key = without(node.SerializeToString(), number, made, early, omitting)
                found.append(same(key) or self._kind(node, key))
            else:
                found.append(self._kind(node))
                without(
                    NodeProto(input=node.input, output=node.output).SerializeToString(), number, made, early, omitting
                )
        return found

    def _kind(self, node: NodeProto, key: tuple[bytes, int, int] | None = None) -> Kind:
        if self._walk is not None:
            self._sound = self._sound and self._walk.passes(node)
        form = node.domain, node.op_type, len(node.input), len(node.output), len(node.attribute)
        if key and len(key[0]) <= _LONGEST and len(self._same) < _MOST and not (node.doc_string or node.metadata_props):
            self._same[key] = kind = Kind(*form, same=True)
            return kind
        if form not in self._alike:
            self._alike[form] = Kind(*form, same=False)
        return self._alike[form]


Above = tuple[tuple[Layout, set[bytes], int], ...]
"""The layouts around a graph with the names of their inputs and initializers, and the node that holds the graph."""


def _sound(graph: GraphProto, layout: Layout, walk: valid.Walk) -> bool:
    """Whether each value is surely made once in all graphs, and before it is read."""
    count, everything = 0, set[bytes]()
    pending: list[tuple[GraphProto, Layout, Above]] = [(graph, layout, ())]
    while pending:
        graph, layout, above = pending.pop()
        try:
            own = {name.encode() for name in walk.frame(graph, main=not above)}
        except (InvalidModel, AttributeError):  # a name that is no text
            return False
        if not _names_fit(graph, layout, own, above, walk):
            return False
        count += len(layout.made) + len(own)
        if layout.inner or above:
            everything.update(layout.made, own)
        for index, inner in layout.inner.items():
            held = [graph for _, _, graph in subgraphs(graph.node[index])]
            around = ((layout, own, index), *above)
            pending += [(*one, around) for one in zip(held, inner, strict=True)]
    return not everything or len(everything) == count


def _names_fit(graph: GraphProto, layout: Layout, own: set[bytes], above: Above, walk: valid.Walk) -> bool:
    made, early = layout.made, layout.early
    outputs = sum(kind.outputs * count for kind, count in Counter(layout.kinds).items())
    omitting = [graph.node[number] for number in dict.fromkeys(layout.omitting)]
    outputs -= sum(list(node.output).count("") for node in omitting)
    if not all(map(walk.passes, omitting)):
        return False
    if outputs != len(made) or not own.isdisjoint(made):
        return False
    for name in early - own:
        if name and not any(name in names or one.made.get(name, at) < at for one, names, at in above):
            return False
    results = {value.name.encode() for value in graph.output}
    return all(name in made or name in own for name in results)

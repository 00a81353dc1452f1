"""What a model consists of: one walk over its nodes that tells kinds of calls apart, without a look at their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from opshift.passes.errors import InvalidModel
from opshift.passes.model import validity
from opshift.passes.model.encoding import node_bytes, tensor_bytes
from opshift.passes.model.encoding.fields import prefix_length, tag, varint
from opshift.passes.model.encoding.node_bytes import Values
from opshift.passes.model.imports import Callee
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Body, Census, census, graphless, subgraphs
from opshift.passes.records import dataclass, field

_MOST = 4096  # kinds that are told apart by their attributes' values
_LONGEST = 1 << 14  # bytes of a function without its name: what is longer is hardly repeated
_NAME = tag(FunctionProto.NAME_FIELD_NUMBER)


class CallSignature:
    """Calls of an operator with so many inputs, outputs and attributes; `same` if they differ in their names alone.

    There is one for each constant that differs from others.
    """

    __slots__ = ("attributes", "domain", "inputs", "op", "outputs", "overload", "same")

    def __init__(
        self, domain: str, op: str, inputs: int, outputs: int, attributes: int, overload: str, *, same: bool
    ) -> None:
        self.domain, self.op, self.overload = domain, op, overload
        self.inputs, self.outputs, self.attributes = inputs, outputs, attributes
        self.same = same

    @property
    def graphless(self) -> bool:
        """Whether no such call holds a graph."""
        return not self.attributes or (not self.domain and self.op in graphless())


@dataclass
class BodyLayout:
    """The kind of each node of a body, and the layouts of the graphs that nodes hold, by the node's index.

    `outdated` says that the body now holds other calls.
    """

    signatures: list[CallSignature] = field(default_factory=list)
    counts: Counter[CallSignature] = field(default_factory=Counter)
    inner: dict[int, list[BodyLayout]] = field(default_factory=dict)
    outdated: bool = False
    values: Values = field(default_factory=Values)


Above = tuple[tuple[BodyLayout, int], ...]
"""The layouts around a graph, and the node of each that holds it."""


class Survey:
    """The layouts of a model's bodies, how often each (domain, operator) is called, and how deep graphs are nested.

    With `checked`, also whether all is as ONNX allows, and the names of all bodies.

    Raises:
        InvalidModel: it is not.
    """

    def __init__(self, model: ModelProto, *, checked: bool = False):
        self._same: dict[node_bytes.Key, CallSignature] = {}
        self._alike: dict[tuple[str, str, int, int, int, str], CallSignature] = {}
        self._valued = 0
        self._judges: dict[tuple[tuple[str, int], ...], SignatureJudge] = {}
        self._written: dict[bytes, BodyLayout] = {}
        self.checked = checked
        self.values: list[tuple[Body, Values]] = []
        if checked:
            validity.check_header(model)
        judge = SignatureJudge(validity.ValidityWalk(model.ir_version, validity.imports(model))) if checked else None
        self.graph = self.layout(model.graph, judge)
        if judge is not None and not judge.sound:
            validity.check_graph(model)  # in order, to tell what comes first, if anything does
        checked = checked and model.ir_version >= validity.FUNCTIONS_SINCE
        self.functions = [self._function(f, self._judge(model, f) if checked else None) for f in model.functions]
        if checked and not (all(judge.sound for judge in self._judges.values()) and _distinct(model.functions)):
            validity.check_functions(model)
        self.calls: Counter[tuple[str, str]] = Counter()
        self.depth = 0
        pending = [(layout, 0) for layout in (self.graph, *self.functions)]
        while pending:
            layout, depth = pending.pop()
            for signature, count in layout.counts.items():
                self.calls[signature.domain, signature.op] += count
            self.depth = max(self.depth, depth)
            pending += [(inner, depth + 1) for held in layout.inner.values() for inner in held]

    def _function(self, function: FunctionProto, judge: SignatureJudge | None) -> BodyLayout:
        """The layout of a function; of those that differ in their name alone one is looked at."""
        data = function.SerializeToString()
        size, start = varint(data, 1) if data.startswith(_NAME) else (0, 0)
        if not size or len(data) - start - size > _LONGEST:
            return self.layout(function, judge)
        key = data[start + size :]
        known = self._written.get(key)
        if known is not None:
            return BodyLayout(known.signatures.copy(), known.counts, values=known.values)
        found = self.layout(function, judge)
        if not found.inner:
            self._written[key] = found
        return found

    def layout(self, body: Body, judge: SignatureJudge | None = None) -> BodyLayout:
        """The layout of a body and of all graphs that are nested in it, which a judge looks at."""
        found, apart = BodyLayout(), graphless()
        held = list[tuple[BodyLayout, Above]]()
        pending: list[tuple[Body, BodyLayout, Above]] = [(body, found, ())]
        while pending:
            body, layout, above = pending.pop()
            if judge is not None:
                judge.frame(body, layout.values, main=not above)
            layout.signatures = node_bytes.read(
                body.node, apart if above else None, layout.values, self._same, self._signature
            )
            layout.counts = Counter(layout.signatures)
            if judge is not None:
                judge.nodes(body, layout, above)
                held.append((layout, above))
            self.values.append((body, layout.values))
            holding = {signature for signature in layout.counts if not signature.graphless}
            for index in (
                [index for index, signature in enumerate(layout.signatures) if signature in holding] if holding else ()
            ):
                graphs = [graph for _, _, graph in subgraphs(body.node[index])]
                layout.inner[index] = [BodyLayout() for _ in graphs]
                around = ((layout, index), *above)
                pending += [(*one, around) for one in zip(graphs, layout.inner[index], strict=True)]
        if judge is not None:
            judge.distinct(held)
        return found

    def call_counts(self) -> Iterator[Counter[Callee]]:
        """Count the calls of each operator, in the main graph and then in each function."""
        for first in (self.graph, *self.functions):
            found, pending = Counter[Callee](), [first]
            for layout in pending:
                for signature, count in layout.counts.items():
                    found[normalize_domain(signature.domain), signature.op, signature.overload] += count
                pending += [inner for held in layout.inner.values() for inner in held]
            yield found

    def census(self, model: ModelProto) -> Census:
        """The bodies of the model as it is now, and its calls; only those with an outdated layout are walked again."""
        held, calls = list[Body](), Counter[tuple[str, str]]()
        pending: list[tuple[Body, BodyLayout]] = [*zip(model.functions, self.functions, strict=True)]
        pending = [*reversed(pending), (model.graph, self.graph)]
        while pending:
            body, layout = pending.pop()
            if layout.outdated:
                bodies, counted = census([body])
                held += bodies
                calls += counted
                continue
            held.append(body)
            for signature, count in layout.counts.items():
                calls[signature.domain, signature.op] += count
            for index, inner in layout.inner.items():
                pending += zip((graph for _, _, graph in subgraphs(body.node[index])), inner, strict=True)
        return held, calls

    def _signature(self, node: NodeProto, key: node_bytes.Key | None) -> CallSignature:
        form = node.domain, node.op_type, len(node.input), len(node.output), len(node.attribute), node.overload
        noted = node.doc_string or node.metadata_props
        apart = node.attribute and node.op_type not in graphless()
        if key and not noted and not apart and (not node.attribute or self._valued < _MOST):
            self._valued += bool(node.attribute)
            self._same[key] = signature = CallSignature(*form, same=True)
            return signature
        if form not in self._alike:
            self._alike[form] = CallSignature(*form, same=False)
        return self._alike[form]

    def _judge(self, model: ModelProto, function: FunctionProto) -> SignatureJudge:
        """The judge of the functions that import the same."""
        key = tuple([(entry.domain, entry.version) for entry in function.opset_import])
        if key not in self._judges:
            self._judges[key] = SignatureJudge(validity.ValidityWalk(model.ir_version, validity.imports(function)))
        return self._judges[key]


def _distinct(functions: Sequence[FunctionProto]) -> bool:
    return len({(f.domain, f.name, f.overload) for f in functions}) == len(functions)


def _spell(names: Iterable[str]) -> dict[bytes, int]:
    return dict.fromkeys([prefix_length(name.encode()) for name in names], -1)


class SignatureJudge:
    """Tells of bodies, from their layouts, whether they are surely as ONNX allows: each kind of call is, and each value
    is made once, and before it is read. What is not sure is left to a walk in order."""

    def __init__(self, walk: validity.ValidityWalk):
        self._walk = walk
        self._right: set[CallSignature] = set()
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
        values.made.update(names)
        values.given = len(values.made)

    def _names(self, body: Body, *, main: bool) -> dict[bytes, int]:
        if isinstance(body, FunctionProto):
            return _spell(self._walk.formals(body))
        if self._walk.is_early or body.sparse_initializer:
            return _spell(self._walk.frame(body, main=main))
        own = self._walk.values(body, main=main)
        held = tensor_bytes.names(body.initializer) if body.initializer else []
        found = dict.fromkeys(held or (), -1)
        self.sound = held is not None and len(found) == len(held)
        found.update(_spell(own))
        return found

    def nodes(self, body: Body, layout: BodyLayout, above: Above) -> None:
        """Look at the nodes of a body, and at what they make and read."""
        try:
            self.sound = self.sound and self._calls_fit(body, layout) and self._names_fit(body, layout, above)
        except AttributeError:  # a name that is no text
            self.sound = False

    def _calls_fit(self, body: Body, layout: BodyLayout) -> bool:
        at, looked, each = 0, set[int](), set[CallSignature]()
        for signature in layout.counts:  # in the order in which they come first
            if (
                not signature.attributes
                and signature.op
                and signature.inputs + signature.outputs
                and self._walk.takes_all_of(signature.domain)
            ):
                self._right.add(signature)
            if signature not in self._right:
                at = layout.signatures.index(signature, at)
                looked.add(at)
                (self._right if signature.same else each).add(signature)
        if each:
            looked.update(index for index, signature in enumerate(layout.signatures) if signature in each)
        if self._walk.has_operators:
            looked -= layout.values.constants
        looked.update(layout.values.omitting)
        return all(self._walk.passes(body.node[index]) for index in looked)

    def _names_fit(self, body: Body, layout: BodyLayout, above: Above) -> bool:
        made = layout.values.made
        outputs = sum(signature.outputs * count for signature, count in layout.counts.items())
        omitted = [list(body.node[index].output).count("") for index in set(layout.values.omitting)]
        if outputs - sum(omitted) != len(made) - layout.values.given:
            return False
        for name in layout.values.early:
            if len(name) > 1 and not any(one.values.made.get(name, at) < at for one, at in above):
                return False
        return isinstance(body, FunctionProto) or all(
            prefix_length(value.name.encode()) in made for value in body.output
        )

    def distinct(self, nested: Iterable[tuple[BodyLayout, Above]]) -> None:
        """Look whether what the nodes of each graph make is called otherwise than what is made around it by then."""
        self.sound = self.sound and not any(
            layout.values.made[name] >= 0 and one.values.made[name] <= at
            for layout, above in nested
            for one, at in above
            for name in layout.values.made.keys() & one.values.made.keys()
        )

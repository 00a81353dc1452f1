"""Unroll Loops, Scans and recurrent operators whose number of iterations is known and small."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from opshift.passes.analysis.knowledge import Origin
from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.conversion import convert
from opshift.passes.errors import Refusal, function_place
from opshift.passes.inputs.wanted import NOTHING
from opshift.passes.model import imports, schemas, tensors
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.editing import branches, dead_code
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto, copy_model, normalize_domain
from opshift.passes.model.traversal import Body, Op, census, subgraphs
from opshift.passes.records import dataclass, field
from opshift.passes.specialization.fixing import follow_fixed
from opshift.passes.specialization.iterations import Unknown, count_iterations, open_with_branches

RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
LOOPS = frozenset({"Loop", "Scan"}) | RECURRENT
"""All that repeats something."""
_RANK = 3
_MOST_NODES = 20_000
_NODES_OF_A_STEP = 20
"""About so many nodes are one step of a recurrent operator."""
_AXES_ARE_INPUTS, _WITHOUT_A_BATCH, _INITIALIZERS_ALONE = 13, 9, 4
_ANYTHING_IS_REPEATED, _OPTIONALS_ARE_REPEATED = 14, 16
_OPAQUE = "opshift.stays"
_INSIDE = "it is inside a Loop or Scan that stays"

Fresh = Callable[[str], str]


@dataclass(frozen=True)
class Unrolled:
    """A model, what was done to it, and what repeats something and stays, with the reason.

    The model is the one that was given if nothing was done.
    """

    model: ModelProto
    changes: tuple[Change, ...]
    stays: tuple[Refusal, ...]


def unroll(model: ModelProto, most: int, ops: frozenset[str] = LOOPS, folder: str | None = None) -> Unrolled:
    """Unroll what has at most `most` iterations; of recurrent operators, and Loops and Scans, only those in `ops`.

    Functions of the model that hold such operators are inlined first.
    """
    changes: list[Change] = []
    if functions := functions_calling(model, {("", op) for op in ops}):
        inlined = convert.attempt(
            model, imports.opsets(model), ops=functions, ir_version=model.ir_version, folder=folder
        )
        if inlined.model is None:
            return Unrolled(model, (), inlined.refusals)
        model = inlined.model
        changes += inlined.changes
    known = dict[str, str]()  # why recurrent operators stay, by the name of an output
    while True:
        model, expanded = _expand_recurrent(model, most, ops, folder, known)
        # a recurrent operator becomes a Scan, which is unrolled whatever else is wanted
        wanted = ops | {"Scan"} if any(change.op in RECURRENT for change in (*changes, *expanded)) else ops
        rewriting = _Rewriting(model, most, wanted, folder, known)
        model = rewriting.rewrite()
        changes += [*expanded, *rewriting.changes]
        if not rewriting.changes or len(model.graph.node) > _MOST_NODES:
            return Unrolled(model, tuple(changes), tuple(rewriting.stays))


def functions_calling(model: ModelProto, ops: set[Op]) -> list[Op]:
    """List the functions of a model that call one of these operators, themselves or through other functions."""
    calls = {
        (normalize_domain(f.domain), f.name): {(normalize_domain(d), op) for d, op in census([f])[1]}
        for f in model.functions
    }
    found = set[Op]()
    while more := {name for name, called in calls.items() if not (found | ops).isdisjoint(called)} - found:
        found |= more
    return sorted(found)


# --- recurrent operators: their definition is a Scan ----------------------------------------------------------------


def _expand_recurrent(
    model: ModelProto, most: int, ops: frozenset[str], folder: str | None, known: dict[str, str]
) -> tuple[ModelProto, list[Change]]:
    """Replace recurrent operators of few steps by Scans; `known` gets the reasons of those that stay."""
    ops &= RECURRENT
    calls = {node.output[0]: node for node in _nodes(model.graph) if node.op_type in ops and not node.domain}
    calls = {name: node for name, node in calls.items() if name not in known}
    if not calls:
        return model, []
    few = set[str]()
    for name, why in _steps(open_with_branches(model, folder), set(calls), most):
        if why:
            known[name] = why
        else:
            few.add(name)
    while few:
        hidden = _hide(model, ops, few)
        expand = [("", op) for op in sorted(ops)]
        done = convert.attempt(hidden, imports.opsets(model), ops=expand, ir_version=model.ir_version, folder=folder)
        if done.model is not None:
            _show(done.model)
            return done.model, list(done.changes)
        refused = {refusal.node: refusal.why for refusal in done.refusals}
        named = {name for name in few if (calls[name].name or name) in refused}
        known.update((name, refused[calls[name].name or name]) for name in named)
        if not named:
            known.update(dict.fromkeys(few, next(iter(refused.values()), "it cannot be expanded")))
            break
        few -= named
    return model, []


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for _, _, inner in subgraphs(node):
            yield from _nodes(inner)


def _steps(scope: Scope, wanted: set[str], most: int) -> Iterator[tuple[str, str]]:
    """Recurrent operators by their first output, each with the reason why it stays, empty if it need not."""
    for index, node in enumerate(scope.body.node):
        for attribute, k, inner in subgraphs(node):
            if node.op_type == "If" and not node.domain:
                yield from _steps(scope.nested_scope(inner, index, attribute, k), wanted, most)
        if node.output and node.output[0] in wanted and node.op_type in RECURRENT:
            try:
                axis = int(_plain(node).get("layout", 0))
                rank = scope.rank(node.input[0])
                if rank not in (None, _RANK):
                    raise Unknown(f'"{node.input[0]}" has rank {rank} at these sizes; supported: {_RANK}')
                iterations = _size(scope, node.input[0], axis)
                check(iterations, most, _NODES_OF_A_STEP)
                if scope.opset < _WITHOUT_A_BATCH:
                    raise Unknown(f"opset {scope.opset} is too old; try --opset 13 first")
                yield node.output[0], ""
            except Unknown as unknown:
                yield node.output[0], unknown.why


def _hide(model: ModelProto, ops: frozenset[str], few: set[str]) -> ModelProto:
    """A copy in which nothing is known of recurrent operators that are to stay."""
    copy = copy_model(model)
    staying = [n for n in _nodes(copy.graph) if n.op_type in ops and not n.domain and n.output[0] not in few]
    for node in staying:
        node.domain = _OPAQUE
    if staying:
        copy.opset_import.add(domain=_OPAQUE, version=1)
    return copy


def _show(model: ModelProto) -> None:
    for node in _nodes(model.graph):
        if node.domain == _OPAQUE:
            node.domain = ""
    kept = [opset for opset in model.opset_import if opset.domain != _OPAQUE]
    del model.opset_import[:]
    model.opset_import.extend(kept)


# --- Loops and Scans ------------------------------------------------------------------------------------------------


def check(iterations: int, most: int, nodes: int) -> None:
    """Raise `Unknown` for a body that would become too many nodes, or for more iterations than are wanted."""
    if iterations * nodes > _MOST_NODES:
        raise Unknown(f"{iterations} iterations of {nodes} nodes are too many; allowed: {_MOST_NODES} nodes")
    if iterations > most:
        raise Unknown(f"it has {iterations} iterations; allowed: {most}; try --unroll {iterations}")


def _size(scope: Scope, name: str, axis: int) -> int:
    """The number of elements along an axis; raises `Unknown` if nothing infers it."""
    shape, origin = scope.shape_with_origin(name)
    if shape is None or origin is not Origin.INFERRED or not -len(shape) <= axis < len(shape):
        raise Unknown(f'the length of "{name}" is unknown; try --fix-shape')
    size = shape[axis]
    if not isinstance(size, int):
        raise Unknown(f'the length of "{name}" is dynamic; try --fix-shape')
    return size


def _count_scan_iterations(node: NodeProto, scope: Scope) -> int:
    """The size of what is scanned."""
    held = _plain(node)
    scanned = int(held["num_scan_inputs"])
    axes = held.get("scan_input_axes", [0] * scanned)
    unknown = Unknown("it scans nothing")
    for name, axis in zip(node.input[-scanned:], axes, strict=True):
        try:
            return _size(scope, name, axis)
        except Unknown as why:
            unknown = why
    raise unknown


@dataclass
class _Rewriting:
    """One round: a copy of a model in which the outermost Loops and Scans of few iterations are unrolled."""

    source: ModelProto
    most: int
    ops: frozenset[str]
    folder: str | None
    known: dict[str, str]
    changes: list[Change] = field(default_factory=list)
    stays: list[Refusal] = field(default_factory=list)

    def rewrite(self) -> ModelProto:
        """The copy; the source if nothing was done."""
        self.made = copy_model(self.source)
        self.fresh = Names(self.made).fresh
        self.numbers = dict[int, str]()
        self.early: list[NodeProto] = []
        self.released = set[str]()
        self._graph(self.made.graph, open_with_branches(self.source, self.folder))
        for function in self.source.functions:
            self._refuse_all(function, function_place(function.domain, function.name))
        if not self.changes:
            return self.source
        if self.early:
            nodes = [*self.early, *self.made.graph.node]
            copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
            del self.made.graph.node[:]
            self.made.graph.node.extend(copies)
        dead_code.drop_unused(self.made, self.released)
        self.changes += follow_fixed(self.made, NOTHING, self.folder)
        return self.made

    def _graph(self, graph: GraphProto, scope: Scope) -> None:
        nodes: list[NodeProto] = []
        before = len(self.changes)
        for index, (node, source) in enumerate(zip(list(graph.node), scope.body.node, strict=True)):
            is_default = not normalize_domain(node.domain)
            if is_default and node.op_type in self.ops:
                try:
                    nodes += self._unroll(node, source, scope)
                    continue
                except Unknown as unknown:
                    self._refuse(node, unknown.why)
            for (attribute, k, inner), (_, _, twin) in zip(subgraphs(node), subgraphs(source), strict=True):
                if is_default and node.op_type == "If":
                    self._graph(inner, scope.nested_scope(twin, index, attribute, k))
                else:
                    self._refuse_all(inner, _INSIDE)
            nodes.append(node)
        if len(self.changes) > before:
            kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
            del graph.node[:]
            graph.node.extend(kept)

    def _refuse(self, node: NodeProto, why: str, where: str = "") -> None:
        self.stays.append(Refusal(node.name or node.output[0], node.op_type, "", 0, False, why, where))

    def _refuse_all(self, body: Body, why: str) -> None:
        for node in body.node:
            if node.op_type in self.ops and not normalize_domain(node.domain):
                self._refuse(node, why)
            for _, _, inner in subgraphs(node):
                self._refuse_all(inner, why)

    def _unroll(self, node: NodeProto, source: NodeProto, scope: Scope) -> list[NodeProto]:
        """What takes the place of a node; raises `Unknown` with the reason why it stays.

        `scope` knows the values of `source`, which is the same node.
        """
        if node.op_type in RECURRENT:
            raise Unknown(self.known.get(node.output[0], _INSIDE))
        body = next(graph for _, _, graph in subgraphs(node))
        if scope.opset < _WITHOUT_A_BATCH:
            raise Unknown(f"opset {scope.opset} is too old; try --opset 13 first")
        if body.sparse_initializer:
            raise Unknown("its body has sparse initializers")
        types = [value.type.WhichOneof("value") for value in (*body.input, *body.output)]
        if "sequence_type" in types and scope.opset < _ANYTHING_IS_REPEATED:
            raise Unknown(f"Identity of opset {scope.opset} takes no sequences; try --opset 14 first")
        if "optional_type" in types and scope.opset < _OPTIONALS_ARE_REPEATED:
            raise Unknown(f"Identity of opset {scope.opset} takes no optional values; try --opset 16 first")
        is_loop = node.op_type == "Loop"
        inside = next(graph for _, _, graph in subgraphs(source))
        size = max(1, sum(1 for _ in _nodes(body)))
        most = _MOST_NODES // size  # more can never be unrolled
        iterations = count_iterations(source, inside, scope, most) if is_loop else _count_scan_iterations(source, scope)
        if not iterations:
            raise Unknown("it never runs, and the sizes of what it would stack are unknown")
        check(iterations, self.most, size)
        written = _Body(node, body, scope, self)
        nodes = list(written.loop(iterations) if is_loop else written.scan(iterations))
        self.released.update(dead_code.names_read(node), *(made.output for made in nodes))
        version = schemas.since("", node.op_type, scope.opset) or 1
        said = f"Unrolled {iterations} iteration{'s' if iterations > 1 else ''}"
        self.changes.append(Change(node.name or node.output[0], node.op_type, "", version, version, said))
        return nodes

    def constant(self, tensor: TensorProto, hint: str) -> str:
        """The name of a constant of the main graph."""
        name = self.fresh(hint)
        self.released.add(name)
        if self.made.ir_version < _INITIALIZERS_ALONE:  # they had to be inputs, too
            attribute = make_attribute("value", tensor)
            self.early.append(NodeProto(op_type="Constant", output=[name], attribute=[attribute]))
        else:
            self.made.graph.initializer.add().CopyFrom(tensor)
            self.made.graph.initializer[-1].name = name
        return name

    def number(self, value: int) -> str:
        """The name of an int64 scalar."""
        if value not in self.numbers:
            self.numbers[value] = self.constant(tensors.int64s([value], []), f"turn/{value}")
        return self.numbers[value]


class _Body:
    """The body of a Loop or Scan, which is written once for each iteration. Its constants are written once."""

    def __init__(self, node: NodeProto, body: GraphProto, scope: Scope, rewriting: _Rewriting):
        self._node, self._scope, self._rewriting = node, scope, rewriting
        self._fresh = rewriting.fresh
        self._constants = dict[str, str]()
        self._body = GraphProto()
        self._body.CopyFrom(body)
        del self._body.initializer[:]
        del self._body.node[:]
        for tensor in body.initializer:
            self._constants[tensor.name] = rewriting.constant(tensor, tensor.name)
        for inner in body.node:
            held = tensors.of_constant(inner) if inner.op_type == "Constant" and not inner.domain else None
            if held is None:
                self._body.node.append(inner)
            else:
                self._constants[inner.output[0]] = rewriting.constant(held, inner.output[0])

    def loop(self, iterations: int) -> Iterator[NodeProto]:
        """Write the body of a Loop so many times; yields the nodes."""
        carried = list(self._node.input[2:])
        stacked: list[list[str]] = [[] for _ in self._node.output[len(carried) :]]
        go_on = self._rewriting.constant(TensorProto(data_type=TensorProto.BOOL, raw_data=b"\1"), "turn/goes_on")
        for iteration in range(iterations):
            given = [self._rewriting.number(iteration), go_on, *carried]
            carried = yield from self._write_iteration(given, self._body.output[1:], len(carried), stacked)
        yield from self._results(carried, [(names, 0) for names in stacked])

    def scan(self, iterations: int) -> Iterator[NodeProto]:
        """Write the body of a Scan so many times; yields the nodes."""
        held, node = _plain(self._node), self._node
        scanned = int(held["num_scan_inputs"])
        carried, sources = list(node.input[:-scanned]), list(node.input[-scanned:])
        axes = held.get("scan_input_axes", [0] * scanned)
        backwards = held.get("scan_input_directions", [0] * scanned)
        stacked: list[list[str]] = [[] for _ in node.output[len(carried) :]]
        for iteration in range(iterations):
            given = list(carried)
            for name, axis, back in zip(sources, axes, backwards, strict=True):
                at = self._rewriting.number(iterations - 1 - iteration if back else iteration)
                given.append(self._fresh(f"{name}/slice"))
                attribute = make_attribute("axis", axis)
                yield NodeProto(op_type="Gather", input=[name, at], output=[given[-1]], attribute=[attribute])
            carried = yield from self._write_iteration(given, self._body.output, len(carried), stacked)
        directions = held.get("scan_output_directions", [0] * len(stacked))
        ordered = [names[::-1] if back else names for names, back in zip(stacked, directions, strict=True)]
        places = held.get("scan_output_axes", [0] * len(stacked))
        yield from self._results(carried, list(zip(ordered, places, strict=True)))

    def _write_iteration(
        self, given: Sequence[str], outputs: Sequence[Any], count: int, stacked: list[list[str]]
    ) -> Any:
        """Yield the nodes of one iteration; returns the names of the values that go to the next one."""
        pairs = [(value.name, self._fresh(value.name)) for value in outputs]
        names = dict(zip((value.name for value in self._body.input), given, strict=True)) | self._constants
        for made in branches.inline_branch(self._body, pairs, names, self._fresh):
            made.name = self._fresh(made.name) if made.name else ""
            yield made
        for held, (_, name) in zip(stacked, pairs[count:], strict=False):
            held.append(name)
        return [name for _, name in pairs[:count]]

    def _results(self, carried: Sequence[str], stacked: Sequence[tuple[list[str], int]]) -> Iterator[NodeProto]:
        outputs = self._node.output
        for name, held in zip(outputs, carried, strict=False):
            if name:
                yield NodeProto(op_type="Identity", input=[held], output=[name])
        for name, (parts, axis) in zip(outputs[len(carried) :], stacked, strict=True):
            if name:
                singles = [self._fresh(f"{part}/single") for part in parts]
                for part, single in zip(parts, singles, strict=True):
                    yield self._unsqueeze(part, single, axis)
                attribute = make_attribute("axis", axis)
                yield NodeProto(op_type="Concat", input=singles, output=[name], attribute=[attribute])

    def _unsqueeze(self, value: str, name: str, axis: int) -> NodeProto:
        node = NodeProto(op_type="Unsqueeze", input=[value], output=[name])
        if self._scope.opset < _AXES_ARE_INPUTS:
            node.attribute.append(make_attribute("axes", [axis]))
        else:
            node.input.append(self._axes(axis))
        return node

    def _axes(self, axis: int) -> str:
        key = f"axes/{axis}"
        if key not in self._constants:
            self._constants[key] = self._rewriting.constant(tensors.int64s([axis], [1]), f"turn/{key}")
        return self._constants[key]


def _plain(node: NodeProto) -> dict[str, Any]:
    """The attributes of a node by name, but for graphs."""
    return {attribute.name: attribute_value(attribute) for attribute in node.attribute if not attribute.HasField("g")}

"""Find who calls which function of a model, and which optional inputs and attributes matter in its body.

An input or attribute is *decisive* if an operator that has to change reads it, and may also be called without it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from opshift.passes.model import schemas
from opshift.passes.model.messages import FunctionProto, GraphProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Body, Op, graphless, subgraphs, with_nested
from opshift.passes.records import dataclass, field

Callee = tuple[str, str, str]  # domain, name, overload
Asks = Callable[[str, str, int], bool]  # whether an operator at a version of its domain has to change

MOST_COPIES = 4096  # of all functions together
_NOTHING = frozenset[str]()


class Omitted(NamedTuple):
    """Inputs and attributes of a function, by name."""

    inputs: frozenset[str] = _NOTHING
    attributes: frozenset[str] = _NOTHING

    def union(self, other: Omitted) -> Omitted:
        return Omitted(self.inputs | other.inputs, self.attributes | other.attributes)

    def __str__(self) -> str:
        return ", ".join(sorted(self.inputs | self.attributes))


NOTHING_OMITTED = Omitted()


def refers(node: NodeProto) -> bool:
    """Tell whether an attribute of a node refers to an attribute of the function around it."""
    return any(attribute.ref_attr_name for attribute in node.attribute)


def key_of(function: FunctionProto) -> Callee:
    return normalize_domain(function.domain), function.name, function.overload


def callee_of(node: NodeProto) -> Callee:
    """Return the key of the function that a node calls, if it calls one."""
    return normalize_domain(node.domain), node.op_type, node.overload


@dataclass
class Called:
    """A function, its nodes with decisive inputs or attributes, and its calls of functions.

    With each node come the function's inputs: the decisive ones that it reads; or all that are visible at a call.
    """

    proto: FunctionProto
    defaults: frozenset[str]
    asking: list[tuple[NodeProto, Omitted]] = field(default_factory=list)
    calls: list[tuple[NodeProto, Callee, frozenset[str]]] = field(default_factory=list)


class Callers:
    """The functions of a model with their callers, and the decisive inputs and attributes of each.

    `decisive` has them all. `split` has those for which the function needs a copy for each variant of call: none in a
    function that is inlined, as each call then has a copy of its body anyway.
    """

    def __init__(self, model: ModelProto, asks: Asks, inlined: Container[Op]):
        self._model = model
        self._asks = asks
        self._known: dict[tuple[tuple[str, int], ...], dict[tuple[str, str], _FunctionCallKind]] = {}
        self._names = {key_of(function)[:2] for function in model.functions}
        self.functions = {key_of(function): self._read(function) for function in model.functions}
        callers: dict[Callee, list[tuple[Callee, NodeProto, frozenset[str]]]] = {}
        for caller, of in self.functions.items():
            for node, callee, seen in of.calls:
                callers.setdefault(callee, []).append((caller, node, seen))
        own = {key: _unite(omitted for _, omitted in of.asking) for key, of in self.functions.items()}
        for key, of in self.functions.items():
            if key[:2] in inlined and of.defaults:  # a default applies if the caller's own caller omits the attribute
                own[key] = own[key].union(Omitted(_NOTHING, of.defaults))
        self.decisive = self._spread(own, callers)
        kept = {key: NOTHING_OMITTED if key[:2] in inlined else decisive for key, decisive in self.decisive.items()}
        self.split = self._spread(kept, callers)

    def _read(self, function: FunctionProto) -> Called:
        defaults = frozenset(attribute.name for attribute in function.attribute_proto)
        found = Called(function, defaults)
        imports = tuple([(normalize_domain(i.domain), i.version) for i in function.opset_import])
        known = self._known.setdefault(imports, {})
        for node, seen in nodes_of(function, frozenset(function.input)):
            kind = known.get((node.domain, node.op_type))
            if kind is None:
                kind = known[node.domain, node.op_type] = self._kind(node, dict(imports))
            if kind.local:
                key = (normalize_domain(node.domain), node.op_type, node.overload)
                found.calls.append((node, key, seen))
            if kind.asks and (omitted := _optional(node, kind.schema, seen, defaults)):
                found.asking.append((node, omitted))
        return found

    def _kind(self, node: NodeProto, imports: Mapping[str, int]) -> _FunctionCallKind:
        op = normalize_domain(node.domain), node.op_type
        version = imports.get(op[0], 0)
        return _FunctionCallKind(op in self._names, self._asks(*op, version), schemas.schema(*op, version))

    def _spread(
        self, own: Mapping[Callee, Omitted], callers: Mapping[Callee, list[tuple[Callee, NodeProto, frozenset[str]]]]
    ) -> dict[Callee, Omitted]:
        """Spread decisive inputs to callers: what a caller passes on to a decisive input is decisive in the caller."""
        found = dict(own)
        pending = [key for key, decisive in found.items() if any(decisive)]
        while pending:
            callee = pending.pop()
            for caller, node, seen in callers.get(callee, ()):
                handed = find_handed_on(
                    node, self.functions[callee], found[callee], seen, self.functions[caller].defaults
                )
                more = found[caller].union(handed)
                if more != found[caller]:
                    found[caller] = more
                    pending.append(caller)
        return {key: decisive if any(decisive) else NOTHING_OMITTED for key, decisive in found.items()}

    def variants(self) -> dict[Callee, list[Omitted]]:
        """List for each split function which decisive inputs its calls omit, first those that omit least."""
        found: dict[Callee, dict[Omitted, None]] = {key: {} for key, split in self.split.items() if any(split)}
        names = {key[1] for key in found}
        pending: list[tuple[Callee, Omitted]] = []
        met: set[tuple[object, ...]] = set()

        def add_variant(node: NodeProto, callee: Callee, omitted: Omitted = NOTHING_OMITTED) -> None:
            variant = self.variant(node, callee, omitted)
            if variant not in found[callee]:
                found[callee][variant] = None
                pending.append((callee, variant))

        for body in with_nested(outside(self._model)):
            for node in body.node:
                if node.op_type not in names:
                    continue
                kind = *callee_of(node), *map(bool, node.input[:]), *[a.name for a in node.attribute]
                if kind not in met:
                    met.add(kind)
                    if kind[:3] in found:
                        add_variant(node, callee_of(node))
        for key, of in self.functions.items():
            for node, callee, _ in of.calls if key not in found else ():
                if callee in found:
                    add_variant(node, callee)
        left = len(found) + MOST_COPIES
        while pending and left >= 0:
            key, variant = pending.pop()
            left -= 1
            for node, callee, seen in self.functions[key].calls:
                if callee in found:
                    add_variant(node, callee, Omitted(variant.inputs & seen, variant.attributes))
        return {key: sorted(variants, key=_order) for key, variants in found.items()}

    def variant(self, node: NodeProto, callee: Callee, omitted: Omitted) -> Omitted:
        """Find which decisive inputs a call omits, if the function around it is called without `omitted`."""
        split, of = self.split[callee], self.functions[callee]
        given = {
            formal
            for formal, name in zip(of.proto.input, node.input, strict=False)
            if name and name not in omitted.inputs
        }
        bound = {a.name for a in node.attribute if a.ref_attr_name not in omitted.attributes}
        return Omitted(split.inputs - given, split.attributes - bound - of.defaults)


class _FunctionCallKind(NamedTuple):
    """Calls of an operator in functions that import the same opsets."""

    local: bool
    asks: bool
    schema: schemas.Schema | None


def outside(model: ModelProto) -> list[Body]:
    """List the main graph and the training graphs, which are in no function."""
    return [model.graph, *(graph for t in model.training_info for graph in (t.initialization, t.algorithm))]


def nodes_of(body: Body, formals: frozenset[str]) -> Iterator[tuple[NodeProto, frozenset[str]]]:
    """Yield the nodes of a function and its subgraphs, with the inputs of the function that no inner name hides."""
    apart = graphless()
    pending = [(body, formals)]
    while pending:
        body, seen = pending.pop()
        for node in body.node:
            yield node, seen
            if node.attribute and (node.domain or node.op_type not in apart):
                pending += [(graph, seen - _own(graph) if seen else seen) for _, _, graph in subgraphs(node)]


def _own(graph: GraphProto) -> set[str]:
    """List the names that a graph defines itself; they hide outer values."""
    held = {tensor.name for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))}
    return held.union((value.name for value in graph.input), *(node.output for node in graph.node))


def _optional(
    node: NodeProto, schema: schemas.Schema | None, seen: frozenset[str], defaults: frozenset[str]
) -> Omitted | None:
    """Find the function's inputs and attributes that a node reads and can do without; None if there are none."""
    inputs = {name for name in node.input if name in seen} if seen else set[str]()
    if inputs and schema is not None:
        inputs = {
            name
            for index, name in enumerate(node.input)
            if name in seen and (formal := schema.input(index)) and formal.option != "Single"
        }
    attributes = {
        a.ref_attr_name
        for a in node.attribute
        if a.ref_attr_name and a.ref_attr_name not in defaults and not _is_required(node, schema, a.name)
    }
    return Omitted(frozenset(inputs), frozenset(attributes)) if inputs or attributes else None


def _is_required(node: NodeProto, schema: schemas.Schema | None, name: str) -> bool:
    """Tell whether a node needs the attribute; a Constant needs the one that it has."""
    if schema is None or name not in schema.attributes:
        return False
    return schema.attributes[name].required or node.op_type == "Constant"


def find_handed_on(
    node: NodeProto, callee: Called, decisive: Omitted, seen: frozenset[str], defaults: frozenset[str]
) -> Omitted:
    """Find the inputs and attributes of a function that a call in it passes on to `decisive` ones of another."""
    inputs = {
        name
        for formal, name in zip(callee.proto.input, node.input, strict=False)
        if name in seen and formal in decisive.inputs
    }
    attributes = {
        a.ref_attr_name
        for a in node.attribute
        if a.ref_attr_name and a.name in decisive.attributes and a.ref_attr_name not in defaults
    }
    return Omitted(frozenset(inputs), frozenset(attributes))


def _unite(parts: Iterable[Omitted]) -> Omitted:
    found = NOTHING_OMITTED
    for part in parts:
        found = found.union(part)
    return found


def _order(variant: Omitted) -> tuple[int, list[str], list[str]]:
    return len(variant.inputs) + len(variant.attributes), sorted(variant.inputs), sorted(variant.attributes)

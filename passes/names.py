"""Fresh names: one set, one counter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property

from opshift.passes import schemas
from opshift.passes.protos import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

Body = GraphProto | FunctionProto

_MOST_ENDINGS = 64  # of fresh names that are searched for one by one


def subgraphs(node: NodeProto) -> Iterator[tuple[str, int, GraphProto]]:
    """The graphs in a node's attributes: (attribute name, index, graph)."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
            yield attribute.name, 0, attribute.g
        for index, graph in enumerate(attribute.graphs):
            yield attribute.name, index, graph


def bodies(model: ModelProto) -> Iterator[Body]:
    """The main graph, every model-local function, and every graph nested in them, outer before inner."""
    return with_nested([*reversed(model.functions), model.graph])


def with_nested(pending: list[Body]) -> Iterator[Body]:
    """The bodies in `pending`, the last one first, and every graph nested in them, outer before inner."""
    while pending:
        body = pending.pop()
        yield body
        apart = graphless()
        for node in [node for node in body.node if node.op_type not in apart or node.domain]:
            pending += [graph for _, _, graph in subgraphs(node)]


Census = tuple[list[Body], Counter[tuple[str, str]]]
"""Bodies, outer before inner, and how often each (domain, operator) is called in them."""


def census(pending: list[Body]) -> Census:
    """One walk over all nodes of the bodies in `pending`, the last one first, and of every graph nested in them."""
    held, calls, apart = list[Body](), Counter[tuple[str, str]](), graphless()
    while pending:
        body = pending.pop()
        ops = [(node.domain, node.op_type) for node in body.node]
        counted = Counter(ops)
        held.append(body)
        calls.update(counted)
        holding = {op for op in counted if op[0] or op[1] not in apart}
        for index in [index for index, op in enumerate(ops) if op in holding] if holding else ():
            pending += [graph for _, _, graph in subgraphs(body.node[index])]
    return held, calls


@cache
def graphless() -> frozenset[str]:
    """The operators of the default domain that never hold a graph: almost all, and almost all nodes."""
    return frozenset(op for op in schemas.operators("") if not schemas.has_subgraphs("", op))


class Names:
    """Hands out names that are used nowhere else in the model, which is read once, at the first request.

    No name is looked up: a name is free if the bytes of the model's nodes hold no such ending. That is asked once for
    each ending, which is what stands behind the last slash; where there are many, they share a mark that is free.
    """

    def __init__(self, model: ModelProto):
        self._model = model
        self._endings: dict[str, str] = {}
        self._tails: dict[tuple[str, ...], list[str]] = {}
        self._given: set[str] = set()
        self._count = 0

    def fresh(self, hint: str) -> str:
        """`hint` itself where it is free, else `hint` with a number that no other name has."""
        at = max(hint.rfind("/"), 0)
        return self._take(hint[:at] + self._ending(hint[at:]))

    def fresh_all(self, stem: str, tails: tuple[str, ...]) -> list[str]:
        """The same for `stem` with each of the tails, all of which hold a slash."""
        if tails not in self._tails:
            parts = [tail.rpartition("/") for tail in tails]
            self._tails[tails] = [before + self._ending(f"/{last}") for before, _, last in parts]
        return [self._take(stem + tail) for tail in self._tails[tails]]

    def _take(self, name: str) -> str:
        stem = name
        while name in self._given:
            self._count += 1
            name = f"{stem}_{self._count}"
        self._given.add(name)
        return name

    def _ending(self, ending: str) -> str:
        if ending not in self._endings:
            many = len(self._endings) >= _MOST_ENDINGS
            self._endings[ending] = self._mark + ending if many else self._free(ending)
        return self._endings[ending]

    @cached_property
    def _mark(self) -> str:
        return self._free("/new")

    def _free(self, ending: str) -> str:
        found, number = ending, 1
        while found.encode() in self._held:
            found, number = f"{ending}_{number}", 2 * number
        return found

    @cached_property
    def _held(self) -> bytes:
        """Bytes that hold every name, those of nested graphs included, but not the weights."""
        graph = self._model.graph
        held = [function.SerializeToString() for function in self._model.functions]
        if not graph.initializer and not graph.sparse_initializer:
            return b"\n".join([*held, graph.SerializeToString()])
        held += map(NodeProto.SerializeToString, graph.node)
        held += [value.name.encode() for value in (*graph.input, *graph.output, *graph.value_info)]
        tensors = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
        return b"\n".join([*held, *(tensor.name.encode() for tensor in tensors)])


def unread(model: ModelProto) -> set[str]:
    """Names of node outputs that no node, graph output or function output refers to, in no body."""
    if model.training_info:  # its graphs read values of the main graph
        return set()
    made: set[str] = set()
    read: set[str] = set()
    for body in bodies(model):
        read.update(body.output if isinstance(body, FunctionProto) else [value.name for value in body.output])
        for node in body.node:
            made.update(node.output)
            read.update(node.input)
    return made - read

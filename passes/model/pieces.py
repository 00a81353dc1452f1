"""Cut pieces out of a main graph: the nodes that compute some values from others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from opshift.passes.model.messages import FunctionProto, ModelProto, TypeProto, ValueInfoProto
from opshift.passes.model.traversal import Body, subgraphs, with_nested


class Pieces:
    """A main graph, indexed by the producers and readers of values, subgraphs included."""

    def __init__(self, model: ModelProto):
        self.model = model
        self.nodes = model.graph.node
        self.makers = {name: index for index, node in enumerate(self.nodes) for name in node.output if name}
        self.held = {t.name: t for t in model.graph.initializer}
        self.sparse = {t.values.name: t for t in model.graph.sparse_initializer}
        self.given = [value.name for value in model.graph.input if value.name not in self.held]
        self._readers: dict[str, list[int]] | None = None
        self._known = {*self.makers, *self.held, *self.sparse, *self.given}

    def reads(self, index: int) -> Iterator[str]:
        """List the values that a node and its subgraphs read."""
        node = self.nodes[index]
        graphs = [graph for _, _, graph in subgraphs(node)] if node.attribute else []
        names = (*node.input, *names_read(graphs)) if graphs else node.input
        return (name for name in dict.fromkeys(names) if name in self._known)

    def readers(self, name: str) -> list[int]:
        """List the nodes that read a value."""
        if self._readers is None:
            self._readers = {}
            for index in range(len(self.nodes)):
                for read in self.reads(index):
                    self._readers.setdefault(read, []).append(index)
        return self._readers.get(name, [])

    def between(self, wanted: Iterable[str], ends: Iterable[str]) -> tuple[list[int], list[str]]:
        """Find the nodes that compute values from those at the `ends`, in order, and which ends they read.

        Inputs of the graph are ends, too; a wanted value is none.
        """
        stops, inside, reached = {*ends, *self.given}, set[int](), dict[str, None]()
        pending = [self.makers[name] for name in wanted if name in self.makers]
        while pending:
            index = pending.pop()
            if index in inside:
                continue
            inside.add(index)
            for name in self.reads(index):
                if name in stops:
                    reached[name] = None
                elif name in self.makers:
                    pending.append(self.makers[name])
        return sorted(inside), list(reached)

    def cut(self, wanted: Iterable[str], types: Mapping[str, TypeProto] | None = None) -> ModelProto:
        """Make a model of the nodes that compute `wanted`, with all graph inputs.

        Where `types` are told, values of those names are given, and of the inputs stay those that are read.
        """
        wanted, given = list(wanted), types or {}
        inside, _ = self.between(wanted, given)
        read = set(chain.from_iterable(self.reads(index) for index in inside)) - given.keys()
        piece = ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        piece.functions.extend(self.model.functions)
        graph = piece.graph
        graph.name = self.model.graph.name or "piece"
        graph.node.extend(self.nodes[index] for index in inside)
        graph.initializer.extend(tensor for name, tensor in self.held.items() if name in read)
        graph.sparse_initializer.extend(tensor for name, tensor in self.sparse.items() if name in read)
        graph.input.extend(value for value in self.model.graph.input if types is None or value.name in read)
        graph.input.extend(ValueInfoProto(name=name, type=value_type) for name, value_type in given.items())
        declared = {value.name: value for value in self.model.graph.output}
        graph.output.extend(declared.get(name, ValueInfoProto(name=name)) for name in wanted)
        return piece


def names_read(graphs: Sequence[Body]) -> Iterator[str]:
    """List the names that graphs and those inside of them read, their own among these."""
    for body in with_nested([*graphs]):
        for inner in body.node:
            yield from inner.input
        if not isinstance(body, FunctionProto):
            yield from (value.name for value in body.output)

"""Where a run stops, and which numbers have to do with it: what the engine says, and what stands at the node."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from opshift.passes.model.traversal import Body, subgraphs, with_nested
from opshift.passes.records import dataclass
from opshift.verification.engines import EngineError

LARGEST = 1 << 16  # a number that may be a size
_SMALL = 32  # elements of a tensor whose numbers are read
_MARK = re.compile(r"~(\d+)~")
_NAME = re.compile(r"Name:'([^']*)'")
_NOISE = re.compile(r"^.*Status Message:|\S+\.(?:h|cc|cpp):\d+|~\d+~|\b(?:u?int|float|axis|dimension|operand) ?\d+\b")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


@dataclass(frozen=True)
class Stop:
    """What an engine says where it cannot go on.

    Attributes:
        reached: the number of the node that fails; -1 where it is not known.
        numbers: those in the engine's words, in their order.
        text: the words, without the numbers.
    """

    reached: int
    numbers: tuple[int, ...]
    text: str


def stop(error: EngineError, named: Mapping[str, int] | None = None) -> Stop:
    """What an error tells; the whole text of the engine is behind the line that is shown of it.

    Nodes are marked, or `named`: what their names are the numbers of.
    """
    cause = error.__context__ or error
    words = " ".join(str(cause).split())
    if named is None:
        marks = _MARK.findall(words) or _MARK.findall(_at(cause))
    else:
        marks = [named[name] for name in _NAME.findall(words) if name in named]
        words = _NAME.sub("", words)
    rest = _NOISE.sub("", words)
    numbers = tuple(int(number) for number in _NUMBER.findall(rest) if len(number) < 8)
    return Stop(int(marks[-1]) if marks else -1, numbers, _NUMBER.sub("#", rest))


def before(model: ModelProto, number: int) -> ModelProto | None:
    """A copy that ends before a node and yields what the node takes; None for a node that is not in the main graph."""
    if number >= len(model.graph.node):
        return None
    copy = ModelProto()
    copy.CopyFrom(model)
    makers = {name: node for node in copy.graph.node for name in node.output if name}
    pending = [name for name in copy.graph.node[number].input if name in makers]
    del copy.graph.output[:], copy.graph.value_info[:]
    copy.graph.output.extend(ValueInfoProto(name=name) for name in dict.fromkeys(pending))
    needed: set[str] = set()
    while pending:
        name = pending.pop()
        if name in makers and name not in needed:
            needed.update(makers[name].output)
            pending += _needs(makers[name])
    for index in reversed(range(len(copy.graph.node))):
        if not needed & set(copy.graph.node[index].output):
            del copy.graph.node[index]
    return copy if copy.graph.output else None


def _at(cause: BaseException) -> str:
    """The name of the node at which onnx.reference was, which does not tell it."""
    name, trace = "", cause.__traceback__
    while trace is not None:
        node = getattr(trace.tb_frame.f_locals.get("node"), "onnx_node", None)
        name = name if node is None else node.name
        trace = trace.tb_next
    return name


def marked(model: ModelProto) -> ModelProto:
    """A copy whose nodes are named by their number, which engines repeat where one fails."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for number, node in enumerate(node for graph in with_nested([copy.graph]) for node in graph.node):
        node.name = f"~{number}~"
    return copy


def names(model: ModelProto) -> dict[str, int] | None:
    """The numbers of nodes by name, which `marked` gives them, too; None unless each has a name of its own."""
    found = [node.name for graph in with_nested([model.graph]) for node in graph.node]
    known = {name: number for number, name in enumerate(found)}
    return known if len(known) == len(found) and all(name and "'" not in name for name in found) else None


def _needs(node: NodeProto) -> Iterator[str]:
    """What a node reads, the graphs in it included."""
    yield from node.input
    for _, _, graph in subgraphs(node):
        for inner in graph.node:
            yield from _needs(inner)


def _backwards(graph: Body) -> list[NodeProto]:
    """The nodes in the order of a search from those that nobody reads, the last one first, each after what it needs."""
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needs = [sorted({makers[name] for name in _needs(node) if name in makers}) for node in graph.node]
    read = {index for held in needs for index in held}
    pending = [(index, False) for index in range(len(needs)) if index not in read]
    seen: set[int] = set()
    found = []
    while pending:
        index, done = pending.pop()
        if done:
            found.append(graph.node[index])
        elif index not in seen:
            seen.add(index)
            pending.append((index, True))
            pending += [(need, False) for need in needs[index] if need not in seen]
    return found


class Surroundings:
    """What stands around the nodes of a model: what they hang on, and the numbers that they hold."""

    def __init__(self, model: ModelProto, *, as_written: bool = False):
        """`as_written` for an engine that runs nodes in the order in which they stand, not in that of onnxruntime."""
        self._model, self._as_written = model, as_written

    @cached_property
    def _graphs(self) -> list[Body]:
        """All graphs; who holds them and their nodes knows each by its identity."""
        return list(with_nested([self._model.graph]))

    @cached_property
    def _numbered(self) -> list[NodeProto]:
        return [node for graph in self._graphs for node in graph.node]

    @cached_property
    def _makers(self) -> dict[str, NodeProto]:
        return {name: node for node in self._numbered for name in node.output if name}

    @cached_property
    def _owners(self) -> dict[str, NodeProto]:
        """The node that a value inside a graph of it hangs on."""
        return {
            name: node
            for node in self._numbered
            for _, _, graph in subgraphs(node)
            for name in (*(value.name for value in graph.input), *(n for inner in graph.node for n in inner.output))
        }

    @cached_property
    def _held(self) -> dict[str, TensorProto]:
        held = {t.name: t for graph in self._graphs for t in getattr(graph, "initializer", ())}
        for node in self._numbered:
            if node.op_type == "Constant" and node.output:
                held.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
        return held

    @cached_property
    def _order(self) -> dict[int, tuple[int, ...]]:
        """When an engine comes to each node, graph by graph."""
        places: dict[int, tuple[int, ...]] = {}
        owners = {id(graph): node for node in self._numbered for _, _, graph in subgraphs(node)}
        for graph in self._graphs:
            owner = places[id(owners[id(graph)])] if id(graph) in owners else ()
            places.update((id(node), (*owner, place)) for place, node in enumerate(self._sorted(graph)))
        return places

    def _sorted(self, graph: Body) -> Iterable[NodeProto]:
        return graph.node if self._as_written else _backwards(graph)

    def progress(self, number: int) -> tuple[int, ...]:
        """How far a run got that stopped at a node, to be compared; nothing where the node is not known."""
        return self._order.get(id(self._numbered[number]), ()) if 0 <= number < len(self._numbered) else ()

    def causes(self, number: int, inputs: Iterable[str]) -> set[str]:
        """The inputs that a node hangs on; all of them where the node is not known."""
        if not 0 <= number < len(self._numbered):
            return set(inputs)
        pending, seen = [self._numbered[number]], set()
        reached: set[str] = set()
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            names = list(_needs(node))
            reached.update(names)
            for name in (*names, *node.output):
                pending += [found for found in (self._makers.get(name), self._owners.get(name)) if found is not None]
        return reached & set(inputs) or set(inputs)

    def held(self, number: int) -> tuple[int, ...]:
        """The sizes of the constants that a node takes."""
        node = self._numbered[number]
        return tuple(size for name in node.input if name in self._held for size in self._held[name].dims)

    def numbers(self, number: int) -> list[int]:
        """Numbers at a node that sizes may have to be: the sizes of what it holds, and small integers of its own."""
        if not 0 <= number < len(self._numbered):
            return []
        node = self._numbered[number]
        found: list[int] = []
        for name in node.input:
            tensor = self._held.get(name)
            if tensor is not None:
                found += tensor.dims
                if math.prod(tensor.dims) <= _SMALL:
                    found += _with_totals(tensors.integers(tensor) or [])
        for attribute in node.attribute:
            if attribute.type in (AttributeProto.INT, AttributeProto.INTS):
                value = attribute_value(attribute)
                found += _with_totals(list(value) if isinstance(value, (list, tuple)) else [value, value])
        return list(dict.fromkeys(n for n in found if 1 < n <= LARGEST))

    @cached_property
    def written(self) -> list[int]:
        """The sizes that stand in small vectors of the model, the most frequent first."""
        counts: dict[int, int] = {}
        for tensor in self._held.values():
            if tensor.data_type == TensorProto.INT64 and math.prod(tensor.dims) <= _SMALL:
                for value in tensors.integers(tensor) or ():
                    if 1 < value <= LARGEST:
                        counts[value] = counts.get(value, 0) + 1
        return sorted(counts, key=lambda size: -counts[size])


def _with_totals(numbers: list[int]) -> list[int]:
    """Numbers, what they add up to, and their product: sizes of parts, of blocks."""
    held = [number for number in numbers if 0 < number <= LARGEST]
    return [*held, sum(held), math.prod(held)] if held else []


def crossings(size: int, before: Stop, other: int, after: Stop, power: int) -> list[int]:
    """Sizes at which a number that grew with a size meets one that did not, going by two runs that stopped alike.

    `power` is how many dimensions have the size: what is made of all of them grows as the area does, not evenly.
    """
    if before.text != after.text or len(before.numbers) != len(after.numbers) or size == other:
        return []
    pairs = list(zip(before.numbers, after.numbers, strict=True))
    held = [a for a, b in pairs if a == b]
    found = []
    for a, b in ((a, b) for a, b in pairs if a != b):
        for fixed in held:
            met = size + (fixed - a) * (other - size) / (b - a)
            found += [math.ceil(met), math.ceil(met) + 1]
            if power > 1 and b > 0:
                area = other * math.pow(fixed / b, 1 / 2)
                found += [math.ceil(area), *(round(area / whole) * whole for whole in (32, 16, 8, 4))]
    return [met for met in dict.fromkeys(found) if 1 < met <= LARGEST]

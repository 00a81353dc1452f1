"""Where a run stops, and which numbers have to do with it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from opshift.passes.model.messages import ModelProto, NodeProto
from opshift.passes.model.traversal import subgraphs, with_nested
from opshift.passes.records import dataclass
from opshift.verification.engines import EngineError

LARGEST = 1 << 16  # a number that may be a size
_MARK = re.compile(r"~(\d+)~")
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


def stop(error: EngineError) -> Stop:
    """What an error tells of marked nodes; the whole text of the engine is behind the line that is shown of it."""
    cause = error.__context__ or error
    words = " ".join(str(cause).split())
    marks, rest = _MARK.findall(words) or _MARK.findall(_at(cause)), _NOISE.sub("", words)
    numbers = tuple(int(number) for number in _NUMBER.findall(rest) if len(number) < 8)
    return Stop(int(marks[-1]) if marks else -1, numbers, _NUMBER.sub("#", rest))


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


def _needs(node: NodeProto) -> Iterator[str]:
    """What a node reads, the graphs in it included."""
    yield from node.input
    for _, _, graph in subgraphs(node):
        for inner in graph.node:
            yield from _needs(inner)


class Surroundings:
    """What the nodes of a model hang on."""

    def __init__(self, model: ModelProto):
        self.nodes = [node for graph in with_nested([model.graph]) for node in graph.node]
        self._makers = {name: node for node in self.nodes for name in node.output if name}
        self._owners = {  # the node that a value inside a graph of it hangs on
            name: node
            for node in self.nodes
            for _, _, graph in subgraphs(node)
            for name in (*(value.name for value in graph.input), *(n for inner in graph.node for n in inner.output))
        }

    def causes(self, number: int, inputs: Iterable[str]) -> set[str]:
        """The inputs that a node hangs on; all of them where the node is not known."""
        if not 0 <= number < len(self.nodes):
            return set(inputs)
        pending, seen = [self.nodes[number]], set()
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


def crossings(size: int, before: Stop, other: int, after: Stop, power: int) -> list[int]:
    """Sizes at which a number that grew with a size meets one that did not, going by two runs that stopped alike.

    `power` is how many dimensions have the size: what is made of all of them grows as the area does, not evenly.
    """
    if before.text != after.text or len(before.numbers) != len(after.numbers) or size == other:
        return []
    pairs = list(zip(before.numbers, after.numbers, strict=True))
    held = [a for a, b in pairs if a == b and a > 1]  # by 1, everything is broadcast
    found = []
    for a, b in ((a, b) for a, b in pairs if a != b):
        for fixed in held:
            if power > 1 and b > 0:
                area = other * math.pow(fixed / b, 1 / 2)
                found += [math.ceil(area), *(round(area / whole) * whole for whole in (32, 16, 8, 4))]
            met = size + (fixed - a) * (other - size) / (b - a)
            found += [math.ceil(met), math.ceil(met) + 1]
    return [met for met in dict.fromkeys(found) if 1 < met <= LARGEST]

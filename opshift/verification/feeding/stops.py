"""Read from an error at which node a run stopped, and which numbers it names."""

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
    """An error of an engine.

    Attributes:
        reached: the number of the node that fails; -1 where it is not known.
        numbers: those in the engine's words, in their order.
        text: the words, without the numbers.
    """

    reached: int
    numbers: tuple[int, ...]
    text: str


def stop(error: EngineError) -> Stop:
    """Read an error that a model with marked nodes raised; the whole text of the engine is its context.

    Runs after each failed run of a search.
    """
    cause = error.__context__ or error
    words = " ".join(str(cause).split())
    marks, rest = _MARK.findall(words) or _MARK.findall(_find_failed_node(cause)), _NOISE.sub("", words)
    numbers = tuple(int(number) for number in _NUMBER.findall(rest) if len(number) < 8)
    return Stop(int(marks[-1]) if marks else -1, numbers, _NUMBER.sub("#", rest))


def _find_failed_node(cause: BaseException) -> str:
    """Find the name of the node at which onnx.reference failed in the traceback, as its text has none.

    Used for errors of onnx.reference.
    """
    name, trace = "", cause.__traceback__
    while trace is not None:
        node = getattr(trace.tb_frame.f_locals.get("node"), "onnx_node", None)
        name = name if node is None else node.name
        trace = trace.tb_next
    return name


def name_nodes_by_number(model: ModelProto) -> ModelProto:
    """Copy a model, and name nodes by their number, which engines repeat where one fails. Runs before a search."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for number, node in enumerate(node for graph in with_nested([copy.graph]) for node in graph.node):
        node.name = f"~{number}~"
    return copy


def _list_reads(node: NodeProto) -> Iterator[str]:
    """List the values that a node and its subgraphs read. Used before a search."""
    yield from node.input
    for _, _, graph in subgraphs(node):
        for inner in graph.node:
            yield from _list_reads(inner)


def causes(model: ModelProto, inputs: Iterable[str]) -> list[set[str]]:
    """Find the inputs that each node of the main graph depends on.

    Runs before a search: only these inputs are worth changing.
    """
    known = {name: {name} for name in inputs}
    by_node = []
    for node in model.graph.node:
        reached = set[str]().union(*(known.get(name, ()) for name in _list_reads(node)))
        known.update(dict.fromkeys(node.output, reached))
        by_node.append(reached)
    return by_node


def crossings(size: int, before: Stop, other: int, after: Stop, power: int) -> list[int]:
    """Guess input sizes that the model accepts, from the errors of two runs at sizes that it does not accept.

    Runs in the search for inputs. In the errors, one number grows with the size, and another one stays: they meet
    at the size.

    An image of 64 pixels has 16 patches, and one of 128 has 64, where 196 are asked for: 224 pixels have them.
    `power` is how many dimensions have the size.
    """
    if before.text != after.text or len(before.numbers) != len(after.numbers) or size == other:
        return []
    pairs = list(zip(before.numbers, after.numbers, strict=True))
    constant_numbers = [a for a, b in pairs if a == b and a > 1]  # by 1, everything is broadcast
    sizes = []
    for a, b in ((a, b) for a, b in pairs if a != b):
        for fixed in constant_numbers:
            if power > 1 and b > 0:
                area = other * math.pow(fixed / b, 1 / 2)
                sizes += [math.ceil(area), *(round(area / whole) * whole for whole in (32, 16, 8, 4))]
            met = size + (fixed - a) * (other - size) / (b - a)
            sizes += [math.ceil(met), math.ceil(met) + 1]
    return [met for met in dict.fromkeys(sizes) if 1 < met <= LARGEST]

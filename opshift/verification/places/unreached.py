"""What no inputs led to: numbers on the other side of a line, turns of a Loop. Both forms are given them by force.

What operators compute of a value hangs on between which lines its numbers lie (`lines`). Where no run had numbers
there, such numbers stand in the place of every other element of the value in both forms, all such values at once; the
outputs are compared, and what either form computes for the values that were replaced.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from opshift.passes.analysis import scope
from opshift.passes.model import imports, tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto, default_domain
from opshift.passes.model.traversal import Body, may_hold, subgraphs, with_nested
from opshift.passes.records import dataclass, field
from opshift.verification.feeding import responding
from opshift.verification.places import decided, levels
from opshift.verification.places.levels import Level
from opshift.verification.places.lines import Piece, constants, pieces
from opshift.verification.places.ranges import ANY, FLOATS, Ranges

_OLDEST = 8  # opset, of which engines run what watches


@dataclass
class Spot:
    """A value, by what reads it: the numbers between lines that no run had yet, or a Loop without a second turn.

    What lies `between` the lines of the two forms is always wanted, and so are `levels`, numbers on the lines. None are
    that lie outside of the `limits` of the value.
    """

    value: str
    node: str
    op: str
    wanted: set[Piece] = field(default_factory=set)
    between: set[Piece] = field(default_factory=set)
    limits: Piece = ANY
    levels: tuple[Level, ...] = ()
    turns: int | None = None

    def see(self, seen: Sequence[float]) -> None:
        """Take in what was seen of it in a run: the least and the largest number, or the number of turns."""
        if self.turns is not None:
            self.turns = max(self.turns, int(seen[0]))
        elif seen[0] <= seen[1]:
            self.wanted = {(low, high) for low, high in self.wanted if not (seen[0] < high and seen[1] > low)}

    @property
    def is_open(self) -> bool:
        return bool(self.pieces or self.levels) or (self.turns is not None and self.turns < 2)

    @property
    def pieces(self) -> set[Piece]:
        """What is wanted, as far as it is within the limits."""
        return within(self.wanted | self.between, self.limits)

    @property
    def lacking(self) -> str:
        """What did not happen; nothing where it is no matter."""
        if self.turns is not None:
            return f'Loop "{self.node}" made no turn' if not self.turns else ""
        return f'{self.op} "{self.node}" was given no {self._numbers}'

    @property
    def done(self) -> str:
        """What is done by force."""
        if self.turns is not None:
            return f'Loop "{self.node}" turns'
        return f'{self.op} "{self.node}" is given {self._numbers}'

    @property
    def _numbers(self) -> str:
        if self.levels:
            return _ALONE.get(self.levels[0][0], "numbers where it decides")
        pieces = sorted(_innermost(self.wanted | self.between))
        if self.op == "Where":
            return " and ".join("False" if math.isinf(low) else "True" for low, _ in pieces)
        return f"numbers {' and '.join(map(_spelled, pieces))}"


_ALONE = {"below": "negative numbers alone", "small": "small numbers alone"}


def _innermost(found: Collection[Piece]) -> list[Piece]:
    """Those that no other one is a part of."""
    return [
        (low, high)
        for low, high in found
        if not any(low <= a and b <= high and (a, b) != (low, high) for a, b in found)
    ]


def _spelled(piece: Piece) -> str:
    low, high = piece
    if math.isinf(low):
        return f"below {high:g}"
    return f"above {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"


def spots(before: ModelProto, after: ModelProto, values: Collection[str]) -> list[Spot]:
    """The values of the first form that either form computes something else of on either side of a line.

    Of those that the inputs decide, beside `values` that are set.
    """
    if imports.opsets(before).get("", 0) < _OLDEST:
        return []
    found: dict[str, Spot] = {}
    lines: tuple[dict[str, set[float]], ...] = ({}, {})
    for model, drawn in zip((before, after), lines, strict=True):
        held, leading = constants(model.graph), _leading(model.graph)
        for node in model.graph.node:
            for name, wanted in pieces(node, held) if node.output[0] not in leading else ():
                spot = found.setdefault(name, Spot(name, node.name or node.output[0], node.op_type))
                spot.wanted.update(wanted)
                drawn.setdefault(name, set()).update(end for piece in wanted for end in piece if math.isfinite(end))
    for name in lines[0].keys() & lines[1].keys():
        found[name].between = _between(lines[0][name], lines[1][name])
    turning = [n for n in before.graph.node if n.op_type == "Loop" and not default_domain(n.domain) and n.output]
    found |= {node.output[0]: Spot(node.output[0], node.name or node.output[0], "Loop", turns=0) for node in turning}
    if not found:
        return []
    moved, settled = responding.hanging(before), decided.following(before.graph, values)
    ranges = Ranges(before)
    for spot in found.values():
        limits = ranges.of(spot.value)
        if limits is not None and spot.turns is None:
            spot.limits, spot.wanted = limits, {piece for piece in spot.wanted if within([piece], limits)}
    live = [spot for spot in found.values() if spot.value not in settled and (spot.pieces or spot.turns is not None)]
    makers = {name: node for node in turning for name in node.output[:1]}
    return [s for s in live if (_counted(makers[s.value], settled) if s.turns is not None else s.value in moved)]


def on_lines(before: ModelProto, after: ModelProto, values: Collection[str]) -> list[Spot]:
    """The values that either form decides of by other nodes than the other one, of those that the inputs move."""
    return _levelled(before, after, values, levels.changed(before.graph, after.graph), FLOATS)


def alone(before: ModelProto, after: ModelProto, values: Collection[str]) -> list[Spot]:
    """The same of those whose elements hide others: in a narrow precision, in which roundings are large."""
    return _levelled(before, after, values, levels.alone(before.graph, after.graph), _NARROW)


_NARROW = frozenset([TensorProto.FLOAT16, TensorProto.BFLOAT16])


def _levelled(
    before: ModelProto,
    after: ModelProto,
    values: Collection[str],
    found: Mapping[str, tuple[NodeProto, tuple[Level, ...]]],
    kinds: Collection[int],
) -> list[Spot]:
    if not found or imports.opsets(before).get("", 0) < _OLDEST:
        return []
    moved, settled = responding.hanging(before), decided.following(before.graph, values)
    types = scope.of_model(before, imports.opsets(before)[""])
    leading = _leading(before.graph) | _leading(after.graph)
    return [
        Spot(name, node.name or node.output[0], node.op_type, levels=wanted)
        for name, (node, wanted) in found.items()
        if name in moved and name not in settled and types.elem_type(name) in kinds and node.output[0] not in leading
    ]


def _between(lines: Collection[float], others: Collection[float]) -> set[Piece]:
    """What lies between lines of which only one of two forms has one: there, they do something else."""
    neighbours = pairwise(sorted({*lines, *others}))
    differing = {*lines} ^ {*others}
    return {
        (low, high)
        for low, high in neighbours
        if not differing.isdisjoint((low, high)) and high - low > _ROUNDED * max(abs(low), abs(high))
    }


_ROUNDED = 0.01
"""By which part of it a line may be moved because constants are rounded."""


def _leading(graph: GraphProto) -> set[str]:
    """What does nothing but decide which branch of an If runs, and whether a Loop turns: they are run apart."""
    found, read = set[str](), {value.name for value in graph.output}
    for node in reversed(graph.node):
        graphs: list[Body] = [held for _, _, held in subgraphs(node)] if may_hold(node) else []
        for at in (node, *(inner for body in with_nested(graphs) for inner in body.node)):
            leads = at.op_type in ("If", "Loop") or (
                at.op_type in _LOGIC and found.issuperset(at.output) and read.isdisjoint(at.output)
            )
            (found if leads else read).update(at.input[: _DECIDING.get(at.op_type)] if leads else at.input)
            read.update(at.input[2:] if at.op_type == "Loop" else ())
    return found - read


_DECIDING = {"If": 1, "Loop": 2}
_LOGIC = frozenset(["And", "Cast", "Identity", "Not", "Or", "Reshape", "Squeeze"])


def within(wanted: Collection[Piece], limits: Piece) -> set[Piece]:
    """The pieces as far as they are within the limits, but for what is next to nothing."""
    cut = ((max(low, limits[0]), min(high, limits[1])) for low, high in wanted)
    return {(low, high) for low, high in cut if high - low > _NOTHING or (low == -math.inf and high == math.inf)}


_NOTHING = 1e-5
"""What guards against a division by 0 is never reached on purpose."""


def _counted(node: NodeProto, settled: Collection[str]) -> bool:
    """Whether anything decides how many turns a Loop makes."""
    return any(name and name not in settled for name in node.input[:2])


# --- watched --------------------------------------------------------------------------------------------------------


def watched(model: ModelProto, found: Sequence[Spot]) -> tuple[ModelProto, list[str]]:
    """A form that tells of each spot the least and the largest number, or the turns; the model itself without any."""
    if not found:
        return model, []
    copy = ModelProto()
    copy.CopyFrom(model)
    graph, told = copy.graph, list[str]()
    nodes = {name: node for node in graph.node for name in node.output[:1]}
    flat, low, high = (f"opshift/watched/{name}" for name in ("flat", "low", "high"))
    graph.node.append(_constant(flat, [-1], TensorProto.INT64))
    graph.node.append(_constant(low, [math.inf], TensorProto.FLOAT))
    graph.node.append(_constant(high, [-math.inf], TensorProto.FLOAT))
    for number, spot in enumerate(found):
        name = f"opshift/watched/{number}"
        if spot.turns is not None:
            _count(nodes[spot.value], name)
        else:
            row = [
                _node("Cast", [spot.value], f"{name}/cast", to=TensorProto.FLOAT),
                _node("Reshape", [f"{name}/cast", flat], f"{name}/row"),
                _node("Concat", [f"{name}/row", low], f"{name}/low", axis=0),
                _node("Concat", [f"{name}/row", high], f"{name}/high", axis=0),
                _node("ReduceMin", [f"{name}/low"], f"{name}/least", keepdims=1),
                _node("ReduceMax", [f"{name}/high"], f"{name}/most", keepdims=1),
                _node("Concat", [f"{name}/least", f"{name}/most"], name, axis=0),
            ]
            graph.node.extend(row)
        told.append(name)
    return copy, told


def _node(op: str, inputs: Sequence[str], output: str, **attributes: Any) -> NodeProto:
    held = [make_attribute(name, value) for name, value in attributes.items()]
    return NodeProto(op_type=op, input=inputs, output=[output], attribute=held)


def _constant(name: str, value: Any, elem_type: int) -> NodeProto:
    return _node("Constant", [], name, value=tensors.tensor(value, elem_type))


def _count(node: NodeProto, name: str) -> None:
    """Let a Loop yield the numbers of its turns, too."""
    body = next(graph for _, _, graph in subgraphs(node))
    body.node.append(_node("Identity", [body.input[0].name], f"{name}/turn"))
    kind = body.output.add(name=f"{name}/turn").type.tensor_type
    kind.elem_type = TensorProto.INT64
    kind.shape.SetInParent()
    node.output.extend([f"{name}/{k}" for k in range(len(node.output), len(body.output) - 2)])
    node.output.append(name)


def see(found: Sequence[Spot], values: Sequence[Any]) -> bool:
    """Take in what was watched in a run; False where nothing was."""
    for spot, value in zip(found, values, strict=False):
        spot.see([len(value)] if spot.turns is not None else value.tolist())
    return len(values) == len(found)


# --- what is said ---------------------------------------------------------------------------------------------------


def told(left: Sequence[Spot]) -> tuple[str, ...]:
    """What is said of what did not happen, and was not run by force either."""
    said = [spot.lacking for spot in left if spot.lacking]
    if not said:
        return ()
    more = f", and {len(said) - 1} more of the kind" if len(said) > 1 else ""
    return (f"{said[0]}{more}: what is computed of them is not proved",)

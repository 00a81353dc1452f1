"""Numbers that stand for minus infinity: where they flow, and what may take their place in a narrower type.

A number that is selected may become the lowest finite one. One that is added must leave room: added to scores, the sum
has to stay finite, its exponential 0, and a row that is masked everywhere has to give what it gave.
"""

from __future__ import annotations

from opshift.passes.model.messages import normalize_domain
from opshift.passes.records import dataclass, field
from opshift.passes.types.formats import Format
from opshift.passes.types.problem import Place, Problem, Value
from opshift.passes.types.wanted import Range

MOVING = frozenset(
    [
        *("Identity", "Reshape", "Expand", "Unsqueeze", "Squeeze", "Transpose", "Slice", "Concat", "Tile", "Gather"),
        *("Flatten", "Trilu", "Split", "GatherElements", "GatherND", "Pad", "DepthToSpace", "SpaceToDepth"),
    ]
)
"""The operators that move numbers, and change none."""

HEAVY = frozenset(
    [
        *("MatMul", "Conv", "ConvTranspose", "Gemm", "Attention", "LSTM", "GRU", "RNN", "DeformConv", "Einsum"),
        *("FusedConv", "FusedMatMul", "FusedGemm", "MultiHeadAttention", "GroupQueryAttention", "MatMulNBits"),
        "LinearAttention",
    ]
)
"""Operators that always become narrow: types are narrowed for their sake."""

_LARGE = 3e7
"""A mask of this size swallows scores in float32, so that a row that is masked everywhere is uniform."""
_SCORES = 7.0
"""Scores up to this magnitude are swallowed by the masks that are added in float16."""


@dataclass
class Flow:
    """Where a mask flows.

    Attributes:
        ends: whether all of it ends in a Softmax, or the like.
        adds: how often it is added to something, at most.
        values: what it is part of.
        scores: what it is added to.
    """

    ends: bool = True
    adds: int = 0
    values: list[Value] = field(default_factory=list)
    scores: list[Value] = field(default_factory=list)


def follow(problem: Problem, constant: Value) -> Flow:
    """Follow a number that stands for minus infinity through a body."""
    flow = Flow()
    _follow(problem, constant, 0, flow, set())
    return flow


def _follow(problem: Problem, start: Value, adds: int, flow: Flow, seen: set[tuple[int, int]]) -> None:
    pending = [(start, adds)]
    while pending:
        value, count = pending.pop()
        if (id(value), count) in seen or count > 8:
            continue
        seen.add((id(value), count))
        flow.adds = max(flow.adds, count)
        for place, at, index in value.readers:
            if at < 0:
                flow.ends = False
                continue
            node = place.nodes[at]
            op = node.op_type if not normalize_domain(node.domain) else ""
            if op in ("Softmax", "Exp") or (op == "Attention" and index == 3):
                continue
            if op in ("MaxPool", "ReduceMax", "GlobalMaxPool") and not count:
                continue
            if (
                (op in MOVING and index == 0)
                or op == "Concat"
                or (op == "Pad" and index == 2)
                or (op == "Where" and index)
                or op in ("Max", "Min", "Clip")
                or (op == "ScatterND" and index != 1)
                or (op == "Mul" and is_mask(place, node.input[1 - index]))
            ):
                more = 0
            elif op in ("Add", "Sum", "Sub"):
                more = 1
                for other, name in enumerate(node.input):
                    found = place.find(name)
                    if other != index and found is not None:
                        flow.scores.append(found)
            else:
                flow.ends = False
                continue
            for name in node.output:
                made = place.values.get(name)
                if made is not None:
                    flow.values.append(made)
                    pending.append((made, count + more))


def is_mask(place: Place, name: str) -> bool:
    """Whether a value is 0 or 1 everywhere, by what makes it: a condition as a number, or 1 less such."""
    for _ in range(12):
        value = place.find(name)
        if value is None or value.maker < 0 or value.place is not place:
            return value is not None and value.tensor is None and "mask" in name.lower()
        node = place.nodes[value.maker]
        if normalize_domain(node.domain):
            return False
        if node.op_type == "Cast":
            return True
        if node.op_type == "Sub":
            name = node.input[1]
        elif node.op_type in MOVING:
            name = node.input[0]
        else:
            return node.op_type == "Where"
    return False


def replacement(flow: Flow, number: float, form: Format, ranges: dict[str, Range] | None) -> float | None:
    """The magnitude that may take the place of a number beyond the range; None if the operators stay wide."""
    if not flow.ends:
        return None
    if not flow.adds:
        return form.most
    if flow.adds > 3 or number < _LARGE or form.integers != 2**11:
        return None
    for value in flow.scores:
        if value in flow.values or value.tensor is not None:
            continue
        seen = (ranges or {}).get(value.name)
        if seen is None or (seen.most > _SCORES and seen.most < _LARGE):
            return None
    return 24576.0 if flow.adds < 3 else 16384.0

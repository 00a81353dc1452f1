"""Two forms of a quantized model, from one quantized value to the next: where both start from the same integers, what
each makes of them is the same, but for a step where a number lies close to the middle between two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opshift.passes.model.messages import ModelProto, NodeProto, default_domain
from opshift.passes.model.tensors import array
from opshift.passes.records import replace
from opshift.verification import random_operators
from opshift.verification.engines import EngineError, OnnxRuntime, Reference
from opshift.verification.judge import Pair, Verdict
from opshift.verification.judgement import STEP, Judgement
from opshift.verification.side import Side
from opshift.verification.tolerances import Tolerances

FEW, SHARE = 2, 0.1
"""How many elements of a value may be a step away wherever they lie, and which part of more than those."""
_LOOSE = "QLinearSoftmax"
"""What makes a step of its own, as it multiplies by the whole part of 1 / y_scale."""
NEAR = 0.01
"""How near to the middle between two integers any number of elements may be a step away."""


def judged(pair: Pair, given: Mapping[str, Any]) -> Verdict | None:
    """What is found from one quantized value to the next, where the models have such and agree so."""
    if pair.cast:
        return None
    try:
        return judge(pair.before, pair.after, given, pair.grade, pair.asked)
    except EngineError:
        return None


def judge(
    before: Side, after: Side, given: Mapping[str, Any], grade: str, asked: Tolerances | None = None
) -> Verdict | None:
    """What is found where the second form starts from each quantized value of the first; None where that says nothing.

    Raises:
        EngineError: one of them does not run so.
    """
    shared = sorted(_quantized(before.model) & _quantized(after.model))
    if not {before.engine, after.engine} <= {OnnxRuntime, Reference} or not shared:
        return None
    names = [value.name for value in before.model.graph.output]
    runs = _run(before, [*shared, *_dividends(before.model, shared)], given)
    values = {name: runs[name] for name in shared if _is_narrow(runs[name])}
    cut, made = _started(after.model, values)
    side = replace(after, model=cut)
    found = _run(side, [*made.values(), *_dividends(cut, made.values())], {**given, **values})
    ties: dict[str, int] = {}
    for name, own in made.items():
        ratios = (_ratio(before.model, name, runs), _ratio(cut, own, found))
        ratio = next((ratio for ratio in ratios if ratio is not None), None)
        loose = any(maker.op_type == _LOOSE for maker in (_maker(before.model, name), _maker(cut, own)))
        count = _apart(values[name], found[own], ratio, loose=loose)
        if count is None:
            return None
        ties[name] = count
    first = replace(before, model=random_operators.cut(before.model, values, [], "before"))
    rest = [value.name for value in first.model.graph.output]
    judged: dict[str, Judgement] = {}
    if rest:
        pair = Pair(first, side, grade, asked)
        verdict = pair.judge({**given, **values}, *([of[name] for name in rest] for of in (runs, found)))
        if any(output.why for output in verdict.outputs):
            return None
        judged = {output.output: output for output in verdict.outputs}
    outputs = tuple(judged.get(name) or Judgement(name, STEP, ties=ties[name]) for name in names)
    return Verdict(outputs, {name: count for name, count in ties.items() if count})


def _run(side: Side, more: list[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a model, and other values of it, by name."""
    names = [value.name for value in side.model.graph.output]
    more = [name for name in dict.fromkeys(more) if name not in names]
    return dict(zip([*names, *more], side.open(more).run(given), strict=True))


def _quantized(model: ModelProto) -> set[str]:
    """What quantizing nodes of the main graph yield."""
    return {
        node.output[0]
        for node in model.graph.node
        if node.op_type == "QuantizeLinear" or node.op_type.startswith("QLinear") or node.op_type == "QGemm"
        if node.output and node.output[0]
    }


def _dividends(model: ModelProto, names: Any) -> list[str]:
    """What QuantizeLinear makes values of, as far as nodes make it."""
    wanted, made = set(names), {name for node in model.graph.node for name in node.output}
    return [
        node.input[0]
        for node in model.graph.node
        if node.op_type == "QuantizeLinear" and not default_domain(node.domain)
        if node.output[0] in wanted and node.input[0] in made
    ]


def _ratio(model: ModelProto, name: str, runs: Mapping[str, Any]) -> Any:
    """What QuantizeLinear rounds, where it makes a value of one with one constant scale."""
    node = _maker(model, name)
    scale = next((held for held in model.graph.initializer if held.name in node.input[1:2]), None)
    if node.op_type != "QuantizeLinear" or node.input[0] not in runs or scale is None:
        return None
    divisor = array(scale)
    return None if divisor is None or divisor.size != 1 else runs[node.input[0]] / np.float64(divisor.reshape(()))


def _maker(model: ModelProto, name: str) -> NodeProto:
    return next(node for node in model.graph.node if name in node.output)


def _is_narrow(value: Any) -> bool:
    return bool(value.dtype.kind in "iu" and value.dtype.itemsize == 1)


def _started(model: ModelProto, values: Mapping[str, Any]) -> tuple[ModelProto, dict[str, str]]:
    """The model that takes these values, and under which names it makes them itself."""
    cut = random_operators.cut(model, values, [], "after")
    made: dict[str, str] = {}
    for old, new in zip(model.graph.node, cut.graph.node, strict=True):
        made |= {name: own for name, own in zip(old.output, new.output, strict=True) if name in values}
    return cut, made


def _apart(one: Any, other: Any, ratio: Any, *, loose: bool) -> int | None:
    """How many elements are a step away; None if any is farther, or more are than lie close to the middle."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return None
    gap = np.abs(one.astype(np.int32) - other.astype(np.int32))
    count = int(np.count_nonzero(gap))
    if gap.max(initial=0) > 1:
        return None
    if loose or count <= max(FEW, SHARE * gap.size):
        return count
    if ratio is None:
        return None
    return count if (np.abs(np.abs(ratio - np.floor(ratio)) - 0.5)[gap > 0] < NEAR).all() else None

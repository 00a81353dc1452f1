"""What reads int64 in a model, and why it would stay."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from opshift.passes.model.messages import ModelProto, TensorProto
from opshift.passes.records import dataclass
from opshift.passes.types.fitting import Fitting
from opshift.passes.types.problem import Problem
from opshift.passes.types.solving import solve
from opshift.passes.types.wanted import types

T = TensorProto


@dataclass(frozen=True)
class WideIntegers:
    """What there is of int64 in a model.

    Attributes:
        nodes: how many nodes read or make it.
        narrow: how many of these could have int32.
        stays: how many others keep it, by the reason.
    """

    nodes: int
    narrow: int
    stays: Mapping[str, int]


BY_SCHEMA = "the operator takes no other type"


def describe_int64(model: ModelProto, folder: str | None) -> WideIntegers | None:
    """Tell what reads int64; None where nothing does. The model is not changed."""
    problem = Problem(model, types("int64=int32"))
    if not any(value.kind == T.INT64 for value in problem.values()):
        return None
    fitting = Fitting(problem, folder, {})
    fitting.find()
    narrow = solve(problem, lambda value: 1, fitting.pulling)
    nodes = changed = 0
    stays: Counter[str] = Counter()
    for place in problem.places:
        for index, node in enumerate(place.nodes):
            values = [place.find(name) for name in (*node.input, *node.output) if name]
            if node.op_type == "Constant" or not any(v is not None and v.kind == T.INT64 for v in values):
                continue
            nodes += 1
            own = [variable for variable in place.groups[index].values() if variable > 0]
            if any(narrow[variable] for variable in own):
                changed += 1
                continue
            why = next((problem.reasons[variable] for variable in own if problem.reasons[variable]), "")
            why = re.sub('"[^"]*"', "a value", why)
            stays[why or ("casts around it would cost more than it saves" if own else BY_SCHEMA)] += 1
    return WideIntegers(nodes, changed, dict(stays.most_common()))

"""What element types nodes have, and which of them other types could take the place of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from opshift.passes.model.messages import ModelProto, TensorProto
from opshift.passes.model.types import element_name
from opshift.passes.records import dataclass
from opshift.passes.types.fitting import Fitting
from opshift.passes.types.problem import FREE, Problem
from opshift.passes.types.reasons import CASTS, Reason
from opshift.passes.types.solving import solve
from opshift.passes.types.staying import Staying
from opshift.passes.types.wanted import types

T = TensorProto


@dataclass(frozen=True)
class Convertible:
    """What there is of an element type in a model, and what becomes of it if another type is asked for.

    Attributes:
        nodes: how many nodes read or make it.
        narrow: how many of these could have the other type.
        stays: how many others keep it, by the reason.
    """

    nodes: int
    narrow: int
    stays: Mapping[str, int]


BY_SCHEMA = Reason("the operator takes no other type")


def count_types(model: ModelProto) -> dict[str, int]:
    """How many nodes read or make each element type, by its name; the most frequent first."""
    found: Counter[int] = Counter()
    for place in Problem(model, types("float16")).places:
        for node in place.nodes:
            if node.op_type == "Constant":
                continue
            values = (place.find(name) for name in (*node.input, *node.output) if name)
            found.update({value.elem_type for value in values if value is not None and value.elem_type})
    return {element_name(elem_type): count for elem_type, count in found.most_common()}


def describe(model: ModelProto, asked: str, folder: str | None) -> Convertible | None:
    """Tell what would become of a type, without a run; None where nothing has it. The model is not changed.

    `asked` is as for `--types`: `float16`, `int64=int32`.
    """
    problem = Problem(model, types(asked))
    if not any(problem.moves(value.elem_type) for value in problem.values()):
        return None
    staying = Fitting(problem, folder, {}) if problem.wanted.of_integers else Staying(problem, folder)
    staying.find()
    narrow = solve(problem, lambda value: 1, staying.pulling)
    nodes = changed = 0
    stays: Counter[str] = Counter()
    for place in problem.places:
        for index, node in enumerate(place.nodes):
            read = [(place.find(name), place.reads[index][at]) for at, name in enumerate(node.input) if name]
            made = [(place.find(name), None) for name in node.output if name]
            held = [
                value.variable if variable is None else variable
                for value, variable in (*read, *made)
                if value is not None and problem.moves(value.elem_type)
            ]
            if node.op_type == "Constant" or not held:
                continue
            nodes += 1
            own = [variable for variable in held if variable > 0]
            if any(narrow[variable] for variable in own) or all(variable == FREE for variable in held):
                changed += 1  # or it takes both, as Shape does
                continue
            why = next(filter(None, (problem.reasons[variable] for variable in own)), CASTS if own else BY_SCHEMA)
            stays[why.general] += 1
    return Convertible(nodes, changed, dict(stays.most_common()))

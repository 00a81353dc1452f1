"""Optimization on request: what a graph computes from constants alone, twice, or to no effect is computed no more."""

from __future__ import annotations

from opshift.passes.analysis.type_inference import contradiction
from opshift.passes.changes import Allowance, Result
from opshift.passes.errors import InvalidModel
from opshift.passes.model import legality
from opshift.passes.model.imports import DEEPEST, check_imports, opsets
from opshift.passes.model.kinds import Survey
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import census
from opshift.passes.optimization.dead_code import _without_dead
from opshift.passes.optimization.visitor import Visit
from opshift.passes.optimization.workspace import Draft, Whole
from opshift.passes.process import collector_paused

_MOST_ROUNDS = 6


@collector_paused()
def attempt(source: ModelProto, *, allowance: Allowance | None = None, folder: str | None = None) -> Result:
    """Optimize a copy of `source` at the opsets that it imports; nothing is refused.

    `folder` is where external data lie; nothing is done that `allowance` does not permit.
    """
    check_imports(source)
    before = Survey(source)
    if before.depth > DEEPEST:
        raise InvalidModel(f"graphs are nested {before.depth} deep; no protobuf reader follows more than {DEEPEST}")
    model = ModelProto()
    model.CopyFrom(source)
    whole = Whole(model, source, folder, allowance)
    try:
        for _ in range(_MOST_ROUNDS):
            whole.begin()
            _sweep(whole)
            _without_dead(model.graph, whole, opsets(model))
            for function in model.functions:
                _without_dead(function, whole, opsets(function))
            if not whole.changed:
                break
        if whole.changes:
            whole.changes += whole.context.inference.contradictions()
    except Exception as error:  # rules trust that nodes have the inputs and attributes that they must have
        for problem in legality.problems(source):
            raise InvalidModel(f"the model is not valid: {problem.op} {problem.node!r} is {problem.why}") from error
        if why := contradiction(source):
            raise InvalidModel(f"the model is not valid: {why}") from error
        raise
    return Result(model, tuple(whole.changes), (), before.calls, census([model.graph, *model.functions])[1])


def _sweep(whole: Whole) -> None:
    """Visit every node of every body once."""
    opset = opsets(whole.model).get("", 1)
    Visit(Draft(whole.model.graph, whole, opset, path=())).body()
    for function in whole.model.functions:
        Visit(Draft(function, whole, opsets(function).get("", opset))).body()

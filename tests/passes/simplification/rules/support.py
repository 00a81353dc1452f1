"""`check_optimized` (before, after, same values) and `check_kept`, as for the steps of a conversion."""

from __future__ import annotations

from typing import Any

import onnx.checker
from onnx import ModelProto
from opshift.passes.changes import Allowance, Result
from opshift.passes.optimization import optimize

from tests.support import check_values, model, show


def optimized(source: ModelProto) -> ModelProto:
    """The optimized model, of which every change is one that the report names."""
    kept = source.SerializeToString()
    result = optimize.attempt(source)
    assert result.model is not None
    assert source.SerializeToString() == kept, "the caller's model was changed"
    assert all(change.how and change.op for change in result.changes)
    onnx.checker.check_model(result.model)
    assert without(source, result) == optimize.attempt(source, allowance=Allowance(most=0)).model
    return result.model


def without(source: ModelProto, result: Result) -> ModelProto | None:
    """What is left to do when all is withheld that was named: nothing, or something was done that was not named."""
    withheld = set[tuple[str, str, str]]()
    while result.changes and not withheld.issuperset(named := {("", c.op, c.how) for c in result.changes}):
        withheld |= named
        result = optimize.attempt(source, allowance=Allowance(frozenset(withheld)))
    return result.model


def check_optimized(
    before: str,
    after: str,
    opset: int = 18,
    *,
    grade: str = "exact",
    feeds: dict[str, Any] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    run: bool = True,
    **io: str,
) -> ModelProto:
    """Optimize, compare the nodes with `after`, and run both forms on the same inputs, special values included."""
    source = model(before, opset, **io)
    result = optimize.attempt(source)
    made = optimized(source)
    shown = show(made)
    assert shown == "\n".join(line.strip() for line in after.strip().splitlines()), shown
    assert result.grade == grade
    if run:
        check_values(source, made, feeds, rtol=rtol, atol=atol)
    return made


def check_kept(body: str, opset: int = 18, **io: str) -> None:
    """The nodes stay as they are."""
    source = model(body, opset, **io)
    shown = show(optimized(source))
    assert shown == show(source), shown


def held(of: ModelProto) -> set[str]:
    """The names of the constants that a model holds."""
    return {tensor.name for tensor in of.graph.initializer}

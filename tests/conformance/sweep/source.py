"""What the source of a derived case computes, and where it is none: engines tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from opshift.verification.engines import EngineError
from tests import quirks
from tests.conformance.agreement import difference
from tests.conformance.cases import Key
from tests.conformance.engines import AsWritten, Evaluator, Judge
from tests.conformance.sweep.calling import Calling
from tests.conformance.sweep.declared import Change
from tests.runtime import Runtime

OUTSIDE = re.compile(
    "out of (data )?(bounds|range)|must be within"
)  # what an engine says of indices that are not valid


def settled(change: Change, calling: Calling) -> tuple[list[Any], str] | None:
    """What the source computes, and why that is disputed; None if no engine runs it, or onnxruntime alone does not, which
    runs the case that it is derived from: onnx.reference takes calls that are none. Where onnxruntime is known to
    refuse what is a call, onnx.reference counts."""
    base, bare, given = change.base, change.bare, change.given
    runs: list[tuple[str, list[Any], str]] = []
    for engine in (Runtime, AsWritten, Evaluator):
        excuse = ""
        try:
            excuse = calling(quirks.excuse, engine.engine, bare.model, given)  # which may run it, to see what is inside
            runs.append((*calling(_run, engine, Key(bare), given), excuse))
        except EngineError as error:
            if OUTSIDE.search(str(error)) or (engine is Runtime and not excuse and _accepts(Key(base))):
                return None
    if not runs:
        return None
    trusted = [(engine, outputs) for engine, outputs, excuse in runs if not excuse]
    if not trusted:
        return runs[0][1], runs[0][2]
    (first, expected), *others = trusted
    for other, outputs in others:
        if complaint := difference(bare, expected, outputs):
            return expected, f"{first} and {other} differ about the source: {complaint}"
    return expected, ""


@lru_cache(maxsize=8)
def _accepts(base: Key) -> bool:
    """Whether onnxruntime runs the case that another one is derived from."""
    try:
        _run(Runtime, base, base.case.inputs)
    except EngineError:
        return False
    return True


def _run(engine: Judge, of: Key, given: Mapping[str, Any]) -> tuple[str, list[Any]]:
    session = _session(engine, of)
    return session.engine, session.run(given)


@lru_cache(maxsize=8)
def _session(engine: Judge, of: Key) -> Runtime | Evaluator:
    return engine(of.case.model)

"""Judges one converted case: by the outputs that ONNX publishes, or by the source's own run where no engine gives them.

The second judge asks less: that one engine computes the same from both forms. It is for published outputs that a later
release corrected and for numbers drawn at random; what it finds is counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import onnx
import onnx.checker
from onnx import ModelProto
from opshift.passes.changes import Allowance
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel
from opshift.passes.goals import NOTHING, Goal, Refinement
from opshift.passes.model.traversal import Op
from opshift.passes.stages.stage import Facts, apply_stages
from opshift.passes.types.carriers import read_carriers

from opshift.verification.engines import EngineError
from tests import quirks
from tests.conformance import draws
from tests.conformance.agreement import difference, mismatch
from tests.conformance.carried import CARRIERS, stranger, widened
from tests.conformance.cases import Case, Key
from tests.conformance.engines import JUDGES, AsWritten, Judge, lacks
from tests.runtime import Runtime

OK, WRONG, INVALID, REFUSED, CRASHED, UNJUDGED = "ok", "wrong", "invalid", "refused", "crashed", "unjudged"
OK_BY_SOURCE, NOT_VALID = "ok by source", "source not valid"
FAILING = "[ONNXRuntimeError]"


@dataclass(frozen=True)
class Verdict:
    """What became of one case at one opset; `why` says more for everything but ok."""

    case: str
    release: str
    source: int
    target: int
    status: str
    why: str = ""
    grade: str = ""
    engine: str = ""

    @property
    def direction(self) -> str:
        return "up" if self.target > self.source else "down" if self.target < self.source else "same"


@dataclass(frozen=True)
class Finding:
    """What a converted model is worth, whoever converted it; `why` says more for everything but ok."""

    status: str
    why: str = ""
    engine: str = ""


def judge(
    case: Case, target: int, ops: Sequence[Op] = (), refinement: Refinement = NOTHING, *, strict: bool = False
) -> Verdict:
    """Convert to `target`, expanding `ops`, refine, and run; a model that no engine can judge is `unjudged`, never ok.

    What is refused or unjudged where onnx.checker rejects the published model itself is `source not valid`. Where that is
    `strict`, a model that onnxruntime does not run, though it runs the source and lacks nothing, is wrong.
    """
    verdict = _judge(case, target, ops, refinement)
    if strict and verdict.status == UNJUDGED and verdict.why.startswith(Runtime.engine):
        first = verdict.why.split(" | ")[0]
        if FAILING in first and not lacks(first) and able(case, Runtime):
            return replace(verdict, status=WRONG, why=f"fails: {verdict.why}")
    if verdict.status in (REFUSED, UNJUDGED) and checked(case.model):
        return replace(verdict, status=NOT_VALID)
    return verdict


def _judge(case: Case, target: int, ops: Sequence[Op], refinement: Refinement) -> Verdict:
    def verdict(status: str, why: str = "", grade: str = "", engine: str = "") -> Verdict:
        return Verdict(case.name, case.release, case.opset, target, status, why, grade, engine)

    try:
        if case.origin is None:
            result = convert.attempt(case.model, {"": target}, ops=ops)
        else:
            carriers = read_carriers(f"{narrow}={wide}" for narrow, wide in CARRIERS.items())
            result = Goal({"": target}, carriers=carriers).run(case.model)
        if result.model is not None:
            stages = Goal(refinement=refinement).stages()
            result = result.join(apply_stages(stages, result.model, Facts(), Allowance()))
    except Exception as error:
        refused = isinstance(error, InvalidModel) and checked(case.model)  # onnx.checker must agree
        return verdict(REFUSED if refused else CRASHED, f"{type(error).__name__}: {error}")
    if result.model is None:
        return verdict(REFUSED, "; ".join(sorted({f"{r.op} {r.boundary}: {r.why}" for r in result.refusals})))
    found = examine(case, result.model, rounded=result.grade == "close")
    return verdict(found.status, found.why, result.grade, found.engine)


def examine(case: Case, converted: ModelProto, *, rounded: bool) -> Finding:
    """Check and run a converted model; `rounded` allows for the rounding of another formula."""
    complaint = checked(converted)
    if complaint and not checked(case.model):
        return Finding(UNJUDGED if case.disputed else INVALID, " | ".join(filter(None, (case.disputed, complaint))))
    if draws.is_random(case.model):
        return _by_draws(case, converted)
    if case.disputed:
        return _as_disputed(case, converted)
    found = _as_published(case, converted, rounded=rounded)
    return found if found.status != UNJUDGED else _as_the_source(case, converted, found.why)


def _as_published(case: Case, converted: ModelProto, *, rounded: bool) -> Finding:
    """Whether an engine that reproduces the published outputs of the source does so with the converted model."""
    reasons = []
    for engine in JUDGES:
        try:
            session = engine(converted)
            outputs = session.run(case.inputs)
        except EngineError as error:
            reasons.append(f"{engine.engine}: {error}")
            continue
        complaint = mismatch(case, outputs, rounded=rounded)
        if case.origin is not None and (foreign := stranger(case, outputs)):
            return Finding(WRONG, f"{engine.engine}: {foreign}", session.engine)
        if not complaint:
            return Finding(OK, engine=session.engine)
        if why := quirks.excuse(engine.engine, converted, case.inputs):
            reasons.append(why)
            continue
        if not able(case, engine):
            reasons.append(f"{engine.engine} does not reproduce the published outputs of the source either")
            continue
        return Finding(WRONG, f"{engine.engine}: {complaint}", session.engine)
    return Finding(UNJUDGED, " | ".join(reasons))


def _as_the_source(case: Case, converted: ModelProto, why: str) -> Finding:
    """Whether an engine computes the same from the source and from the converted model."""
    complaints = []
    for engine in (AsWritten, *JUDGES):
        expected = _source_run(Key(case), engine)
        if expected is None:
            continue
        try:
            session = engine(converted)
            complaint = difference(case, expected, session.run(case.inputs))
        except EngineError:
            continue
        if not complaint:
            return Finding(OK_BY_SOURCE, why, session.engine)
        if any(quirks.excuse(engine.engine, form, case.inputs) for form in (case.model, converted)):
            continue
        complaints.append(f"{engine.engine}, against its run of the source: {complaint}")
    return Finding(WRONG, complaints[0]) if complaints else Finding(UNJUDGED, why)


def _as_disputed(case: Case, converted: ModelProto) -> Finding:
    found = _as_the_source(case, converted, case.disputed)
    return found if found.status == OK_BY_SOURCE else Finding(UNJUDGED, f"{case.disputed} | {found.why}")


def _by_draws(case: Case, converted: ModelProto) -> Finding:
    """Whether an engine draws from the same distribution in the source and in the converted model."""
    reasons = []
    for engine in JUDGES:
        try:
            complaint = draws.difference(engine, case, converted)
        except EngineError as error:
            reasons.append(f"{engine.engine}: {error}")
            continue
        if complaint:
            return Finding(WRONG, f"{engine.engine}: {complaint}", engine.engine)
        return Finding(OK_BY_SOURCE, f"{draws.COUNT} draws of each form", engine.engine)
    return Finding(UNJUDGED, " | ".join(reasons))


def checked(model: ModelProto) -> str:
    """What onnx.checker has against a model; empty if nothing."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return " ".join(str(error).split())[:300]
    return ""


def able(case: Case, engine: Judge) -> bool:
    """Whether an engine reproduces the published outputs of the unconverted case.

    onnxruntime must do so with the roundings that are written as well: else what it leaves out decides.
    """
    runs = [_source_run(Key(case), e) for e in ((Runtime, AsWritten) if engine is Runtime else (engine,))]
    return runs[0] is not None and not any(run is not None and mismatch(case, run) for run in runs)


@lru_cache(maxsize=64)
def _source_run(key: Key, engine: Judge) -> list[Any] | None:
    case = key.case.origin or key.case
    try:
        outputs = engine(case.model).run(case.inputs)
    except EngineError:
        return None
    return outputs if key.case.origin is None else widened(outputs)

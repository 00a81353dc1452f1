"""Judges one converted case by the outputs that ONNX publishes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx.checker
from onnx import ModelProto
from opshift.passes import convert
from opshift.passes.expand import Op

from opshift.engines import ENGINES, EngineError
from tests.conformance.cases import Case

OK, WRONG, INVALID, REFUSED, CRASHED, UNJUDGED = "ok", "wrong", "invalid", "refused", "crashed", "unjudged"


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


def judge(case: Case, target: int, ops: Sequence[Op] = ()) -> Verdict:
    """Convert to `target`, expanding `ops`, and run; a model that no engine can judge is `unjudged`, never ok."""

    def verdict(status: str, why: str = "", grade: str = "", engine: str = "") -> Verdict:
        return Verdict(case.name, case.release, case.opset, target, status, why, grade, engine)

    try:
        result = convert.attempt(case.model, {"": target}, ops=ops)
    except Exception as error:
        return verdict(CRASHED, f"{type(error).__name__}: {error}")
    if result.model is None:
        return verdict(REFUSED, "; ".join(sorted({f"{r.op} {r.boundary}: {r.why}" for r in result.refusals})))
    complaint = _checked(result.model)
    if complaint and not _checked(case.model):
        return verdict(INVALID, complaint, result.grade)
    reasons = []
    for engine in ENGINES:
        try:
            outputs = engine(result.model).run(case.inputs)
        except EngineError as error:
            reasons.append(f"{engine.engine}: {error}")
            continue
        complaint = mismatch(case, outputs, rounded=result.grade == "close")
        if not complaint:
            return verdict(OK, grade=result.grade, engine=engine.engine)
        if not able(case, engine):  # it does not reproduce the published outputs of the source either
            reasons.append(f"{engine.engine} disagrees with the published outputs of the source as well")
            continue
        return verdict(WRONG, f"{engine.engine}: {complaint}", result.grade, engine.engine)
    return verdict(UNJUDGED, " | ".join(reasons), result.grade)


def _checked(model: ModelProto) -> str:
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return " ".join(str(error).split())[:300]
    return ""


def able(case: Case, engine: Any) -> bool:
    """Whether an engine reproduces the published outputs of the unconverted case."""
    return _able(_Key(case), engine)


class _Key:
    def __init__(self, case: Case):
        self.case = case

    def __hash__(self) -> int:
        return id(self.case)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.case is self.case


@lru_cache(maxsize=64)
def _able(key: _Key, engine: Any) -> bool:
    try:
        return not mismatch(key.case, engine(key.case.model).run(key.case.inputs))
    except EngineError:
        return False


def mismatch(case: Case, outputs: Sequence[Any], *, rounded: bool = False) -> str:
    """What differs from the published outputs, in ONNX's own tolerances; empty if nothing does.

    Sums of another order round by some of the last bits of the largest numbers in them: what cancels to 0 in one is
    allowed that much where `rounded`.
    """
    if len(outputs) != len(case.outputs):
        return f"{len(outputs)} outputs instead of {len(case.outputs)}"
    for index, (expected, actual) in enumerate(zip(case.outputs, outputs, strict=True)):
        try:
            slack = _last_bits(expected) if rounded else 0.0
            _assert_alike(expected, actual, case.rtol, max(case.atol, slack))
        except AssertionError as error:
            return f"output {index}: " + " ".join(str(error).split())[:200]
    return ""


def _last_bits(expected: Any) -> float:
    if not isinstance(expected, np.ndarray) or expected.dtype.kind != "f" or not np.isfinite(expected).any():
        return 0.0
    return float(4 * np.finfo(expected.dtype).eps * np.abs(expected[np.isfinite(expected)]).max())


def _assert_alike(expected: Any, actual: Any, rtol: float, atol: float) -> None:
    if isinstance(expected, (list, tuple)):
        assert isinstance(actual, (list, tuple)), "not a sequence"
        assert len(expected) == len(actual), "another length"
        for e, a in zip(expected, actual, strict=True):
            _assert_alike(e, a, rtol, atol)
        return
    if expected is None or actual is None:
        assert expected is actual, "only one is an empty optional"
        return
    e, a = np.asarray(expected), np.asarray(actual)
    assert e.shape == a.shape, f"shape {a.shape} instead of {e.shape}"
    assert e.dtype == a.dtype or e.dtype.kind in "OSU", f"type {a.dtype} instead of {e.dtype}"
    if e.dtype.kind in "OSUb":
        np.testing.assert_array_equal(e, a)
        return
    if e.dtype.kind not in "iufc":  # bfloat16 and smaller floats
        rtol = max(rtol, 2**-6)
        e, a = e.astype(np.float64), a.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(a, e, rtol=rtol, atol=atol)

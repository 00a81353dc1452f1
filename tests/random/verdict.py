"""Judges what a verb makes of a model: by onnx.checker, and by each engine where it reproduces the source."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto
from opshift.passes.errors import InvalidModel

from opshift.verification.compare import compare
from tests.conformance.engines import OLDEST_WITH_KERNELS, opset
from tests.random.engines import Engines
from tests.random.models import Source, complaint
from tests.random.values import finite
from tests.random.verbs import Verb
from tests.random.worker import NO_JUDGE

OK, NEAR, REFUSED, UNJUDGED = "ok", "near", "refused", "unjudged"
WRONG, FAILS, INVALID, CRASHED, REJECTED, HANGS = "wrong", "fails", "invalid", "crashed", "rejected", "hangs"
DIED = "died"
FINDINGS = (WRONG, FAILS, INVALID, CRASHED, REJECTED, HANGS, DIED)
STATUSES = (OK, NEAR, REFUSED, UNJUDGED, *FINDINGS)
SECONDS = 20
NO_KERNEL = (  # what an engine says of its own limits
    NO_JUDGE, "NOT_IMPLEMENTED", "is under development", "Unsupported model IR version", "is computed as opset",
    "is not implemented for", "No registered implementation", "is the newest it loads", "must have the shape set for all outputs",
    "Issues with types [<class 'NoneType'>",
)  # fmt: skip
ORDER = ("onnxruntime", "as written", "onnx.reference", "raised")


@dataclass(frozen=True)
class Verdict:
    """What became of a model; `why` says more for everything but ok."""

    status: str
    why: str = ""
    engine: str = ""
    result: ModelProto | None = None


class _Hangs(BaseException):
    pass


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _Hangs

    before = signal.signal(signal.SIGVTALRM, stop)  # of this process alone: others may be busy
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Judge:
    """Judges all that is done with one source, whose runs are kept."""

    def __init__(self, engines: Engines, source: Source):
        self.engines, self.source = engines, source
        self._runs: dict[str, tuple[list[Any] | None, str]] = {}

    def expected(self, engine: str) -> tuple[list[Any] | None, str]:
        if engine not in self._runs:
            self._runs[engine] = self.engines.run(engine, self.source.model, self.source.feeds)
        return self._runs[engine]

    @property
    def sound(self) -> bool:
        """Whether some engine runs the source, and onnxruntime has nothing against it but that it lacks a kernel."""
        found, why = self.expected("onnxruntime")
        if found is not None:
            return True
        lacking = opset(self.source.model) < OLDEST_WITH_KERNELS or any(word in why for word in NO_KERNEL)
        return lacking and any(self.expected(engine)[0] is not None for engine in ORDER[2:])

    def judge(self, verb: Verb) -> Verdict:
        """Do it, check it, run it."""
        try:
            with _limited(SECONDS):
                result, grade = verb.attempt(self.source.model)
        except InvalidModel as error:
            return Verdict(REJECTED, " ".join(str(error).split())[:300])
        except _Hangs:
            return Verdict(HANGS, f"more than {SECONDS} seconds")
        except Exception as error:
            return Verdict(CRASHED, f"{type(error).__name__}: {error} {_where(error)}")
        if result.model is None:
            return Verdict(REFUSED, "; ".join(sorted({f"{r.op} {r.boundary}: {r.why}" for r in result.refusals})))
        said = complaint(result.model)
        if said:
            return Verdict(INVALID, said, "onnx.checker", result.model)
        if verb.free and any(_empty(v) for v in self.source.feeds.values()):
            return Verdict(UNJUDGED, "sizes of 0 are not provided for", result=result.model)
        return self._run(result.model, grade, verb.free)

    def _run(self, result: ModelProto, grade: str, free: bool) -> Verdict:
        found: list[Verdict] = []
        for engine in ORDER:
            expected, why = self.expected(engine)
            if expected is None:
                continue
            old = min(opset(result), opset(self.source.model)) < OLDEST_WITH_KERNELS
            if found and (apart := self._apart(found[0].engine, engine)):
                return Verdict(UNJUDGED, f"{found[0].engine} and {engine} run the source: {apart}", engine, result)
            outputs, why = self.engines.run(engine, result, self.source.feeds)
            if outputs is None:
                if not _limit(engine, result, why) and not self._alone(engine):
                    found.append(Verdict(FAILS, why, engine, result))
                continue
            verdict = self._compared(expected, outputs, grade, free, engine, result)
            if verdict.status in (OK, NEAR):
                if not found or engine == "as written":
                    return verdict
                return replace(found[0], status=UNJUDGED) if old else _disputed(found[0], engine)
            found.append(verdict)
        return found[0] if found else Verdict(UNJUDGED, "no engine runs both", result=result)

    def _alone(self, engine: str) -> bool:
        """Whether it is onnx.reference, which takes calls that are none, and nobody else runs the source."""
        return engine == "onnx.reference" and self.expected(ORDER[0])[0] is None

    def _apart(self, one: str, other: str) -> str:
        """How two engines differ on the source."""
        a, b = self.expected(one)[0], self.expected(other)[0]
        assert a is not None
        assert b is not None
        return _differ(a, b, "close", False)

    def _compared(
        self, expected: list[Any], outputs: list[Any], grade: str, free: bool, engine: str, result: ModelProto
    ) -> Verdict:
        if all(map(_identical, expected, outputs)):
            return Verdict(OK, engine=engine, result=result)
        why = _differ(expected, outputs, "close" if grade == "close" or free else "exact", free or grade == "close")
        if not why:
            return Verdict(NEAR, engine=engine, result=result)
        if grade == "close" and not finite([*self.source.feeds.values()]):
            return Verdict(UNJUDGED, f"close, of values far from 1: {why}", engine, result)
        return Verdict(WRONG, f"{grade}: {why}", engine, result)


def _limit(engine: str, result: ModelProto, why: str) -> bool:
    """Whether it is the engine that lacks what a model needs."""
    return (
        opset(result) < OLDEST_WITH_KERNELS
        or engine in ("as written", "raised")
        or any(word in why for word in NO_KERNEL)
    )


def _disputed(verdict: Verdict, engine: str) -> Verdict:
    return replace(verdict, why=f"{verdict.why} (not in {engine})")


def _differ(expected: list[Any], outputs: list[Any], grade: str, signless: bool) -> str:
    """What differs between outputs; empty if nothing does."""
    if len(expected) != len(outputs):
        return f"{len(outputs)} outputs instead of {len(expected)}"
    for at, (one, other) in enumerate(zip(expected, outputs, strict=True)):
        if why := compare(one, other, grade).why:
            return f"output {at}: {why}"
        if not signless and grade == "exact" and _zeros(one, other):
            return f"output {at}: the sign of a zero"
    return ""


def _zeros(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return any(map(_zeros, one, other))
    if not isinstance(one, np.ndarray) or one.dtype.kind != "f":
        return False
    both = (one == 0) & (other == 0)
    return bool((np.signbit(one) != np.signbit(other))[both].any())


def _identical(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_identical, one, other))
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return one is None and other is None
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind in "OSU":
        return one.tolist() == other.tolist()
    return one.tobytes() == other.tobytes()


def _empty(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.size


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{f.filename.rsplit('/', 1)[-1]}:{f.name}" for f in reversed(frames[-3:]))

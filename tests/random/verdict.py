"""Judges what a verb makes of a model: by onnx.checker, and by each engine where it reproduces the source."""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx.shape_inference
from onnx import ModelProto, TensorProto
from opshift.passes.changes import GRANTED, Result
from opshift.passes.errors import InvalidModel

from opshift.verification.bounds import compare
from tests import quirks
from tests.conformance.engines import OLDEST_WITH_KERNELS, lacks
from tests.node_calls import calls
from tests.random.branches import turned
from tests.random.engines import LATE, Engines
from tests.random.models import Source, complaint, tame
from tests.random.steadiness import as_unsteady, identical, rocked
from tests.random.values import FAR
from tests.random.verbs import Verb
from tests.random.worker import ENGINES, flat
from tests.runtime import every_node, opset
from tests.undefined import undefined

OK, NEAR, REFUSED, UNJUDGED = "ok", "near", "refused", "unjudged"
WRONG, FAILS, INVALID, CRASHED, REJECTED, HANGS = "wrong", "fails", "invalid", "crashed", "rejected", "hangs"
DIED = "died"
FINDINGS = (WRONG, FAILS, INVALID, CRASHED, REJECTED, HANGS, DIED)
STATUSES = (OK, NEAR, REFUSED, UNJUDGED, *FINDINGS)
FAR_FROM_1 = "close, of NaN, infinity, or values far from 1"
SECONDS = 20
MODEST = 16.0  # of which no function that is drawn makes an infinity
LEAST = 1e-7  # what is less is lost beside 1, as the exponential of -69 is in the definition of Softplus
_NUMBERS = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")
STASHING = ("GroupNormalization", "LayerNormalization", "RMSNormalization")
HOUSES = {
    "onnxruntime": 0,
    "as written": 0,
    "onnx.reference": 1,
    "raised": 0,
}  # engines of one house have its faults in common
ORDER = tuple(HOUSES)


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
        lacking = opset(self.source.model) < OLDEST_WITH_KERNELS or lacks(why)
        return lacking and any(self.expected(engine)[0] is not None for engine in ORDER[2:])

    def judge(self, verb: Verb) -> Verdict:
        """Do it, check it, run it. Of calls that the text leaves open nothing but that something comes back is asked."""
        verdict = self._judge(verb)
        if verdict.status not in (WRONG, FAILS, INVALID):
            return verdict
        why = undefined(flat(self.source.model), self.source.feeds, verdict.why, self.engines.values)
        if not why and verdict.status != WRONG and any(map(self._runs_nowhere, turned(self.source))):
            why = "no engine runs a branch that is not taken"
        return replace(verdict, status=UNJUDGED, why=f"{why}; {verdict.why}") if why else verdict

    def _runs_nowhere(self, source: Source) -> bool:
        return all(self.engines.run(engine, source.model, source.feeds)[0] is None for engine in ORDER)

    def _judge(self, verb: Verb) -> Verdict:
        try:
            with _limited(SECONDS):
                result = verb.attempt(self.source.model)
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
        if any(GRANTED in c.remark for c in result.changes) and any(map(_empty, self.source.feeds.values())):
            return Verdict(UNJUDGED, GRANTED, result=result.model)
        if verb.kind == "types":
            return self._of_types(verb, result)
        verdict = self._run(result.model, result.grade)
        if verdict.status == WRONG and result.grade == "close" and self._near(verb, verdict.why):
            return replace(verdict, status=UNJUDGED, why=f"{FAR_FROM_1}: {verdict.why}")
        return verdict

    def _of_types(self, verb: Verb, result: Result) -> Verdict:
        """Constants have to be rounded once, and what comes out is the same with the types put back.

        Integers are narrow as they are, if those that go in are as small as is assumed.
        """
        assert result.model is not None, "what is refused is not judged"
        undone = verb.undone(self.source.model, result)
        if undone is None:
            if any(map(_large, self.source.feeds.values())):
                return Verdict(UNJUDGED, "integers are larger than what was assumed", result=result.model)
            return self._run(result.model, "exact")
        if "=float32" in str(verb.steps[0][1][0]) and "float64" not in str(verb.steps[0][1][0]):
            verdict = self._run(result.model, "close")  # which computes more precisely
            return replace(verdict, status=NEAR) if verdict.status == WRONG else verdict
        try:
            if constant := undone.changed_constant():
                return Verdict(WRONG, f'constant "{constant}" is not its source, rounded once', result=result.model)
            return self._run(undone.restored(), "exact")
        except Exception as error:
            return Verdict(CRASHED, f"{type(error).__name__}: {error} {_where(error)}", result=result.model)

    def _near(self, verb: Verb, differs: str) -> bool:
        """Whether the same comes out where the numbers are ordinary ones: of others `close` says nothing."""
        extreme = (
            "nan" in differs or "inf" in differs or any(0 < abs(float(n)) < LEAST for n in _NUMBERS.findall(differs))
        )
        near = tame(self.source, MODEST if extreme else FAR)
        return near is not None and Judge(self.engines, near).judge(verb).status in (OK, NEAR)

    def _run(self, result: ModelProto, grade: str) -> Verdict:
        """What the first engine says that reproduces the source; where it says that something is wrong, all are asked."""
        found: list[Verdict] = []
        reasons = []
        for engine in ORDER:
            expected, why = self.expected(engine)
            if expected is None:
                reasons.append(f"{engine}, source: {why}")
                continue
            verdict = self._by(engine, result, grade)
            if verdict.status == UNJUDGED:
                reasons.append(f"{engine}, result: {verdict.why}")
                continue
            if verdict.status not in (OK, NEAR):
                found.append(verdict)
            elif not found:
                return verdict
            else:
                return self._disputed(found[0], verdict)
        return found[0] if found else Verdict(UNJUDGED, " | ".join(reasons), result=result)

    def _by(self, engine: str, result: ModelProto, grade: str) -> Verdict:
        """What an engine that runs the source says of the result."""
        expected, _ = self.expected(engine)
        assert expected is not None
        outputs, why = self.engines.run(engine, result, self.source.feeds)
        if why.startswith(LATE):
            outputs, why = self.engines.run(engine, result, self.source.feeds, SECONDS)
        if outputs is None:
            excused = _limit(engine, result, why) or self._alone(engine) or self._excuse(engine, result, why)
            return Verdict(UNJUDGED if excused else FAILS, why, engine, result)
        if all(map(identical, expected, outputs)):
            return Verdict(OK, engine=engine, result=result)
        if not (differs := _differ(expected, outputs, grade)):
            return Verdict(NEAR, engine=engine, result=result)
        if grade == "close" and _in_float32(self.source.model) and not _differ(_cut(expected), _cut(outputs), grade):
            return Verdict(NEAR, engine=engine, result=result)
        if as_unsteady(expected, outputs, *self._moved(engine), grade=grade):
            return Verdict(UNJUDGED, f"what a rounding of the inputs changes as much: {differs}", engine, result)
        excuse = self._excuse(engine, result, differs) or self._another_source(engine, outputs, grade)
        return Verdict(
            UNJUDGED if excuse else WRONG, f"{excuse}; {differs}" if excuse else f"{grade}: {differs}", engine, result
        )

    def _excuse(self, engine: str, result: ModelProto, differs: str) -> str:
        """Why an engine is no judge of what differs, or of what it says against the result."""
        models, judge = (flat(self.source.model), flat(result)), ENGINES[engine]
        feeds, compute = self.source.feeds, self.engines.values
        found = (quirks.excuse(judge.engine, model, feeds, differs, judge.own, compute) for model in models)
        return next(filter(None, found), "")

    def _another_source(self, engine: str, outputs: list[Any], grade: str) -> str:
        """Which engine of another house makes of the source, wherever that is in dispute, what this one makes of the result."""
        expected, _ = self.expected(engine)
        assert expected is not None
        for other in ORDER:
            theirs, _ = self.expected(other) if HOUSES[other] != HOUSES[engine] else (None, "")
            if theirs is not None and len(theirs) == len(expected) == len(outputs):
                rows = zip(expected, theirs, outputs, strict=True)
                if all(
                    not _differ([mine], [out], grade) or not _differ([out], [its], grade) for mine, its, out in rows
                ):
                    return f"{other} makes of the source what {engine} makes of the result alone"
        return ""

    def _moved(self, engine: str) -> list[list[Any]]:
        """What an engine makes of the source where its inputs are a few roundings off, up and down."""
        moved = (rocked(self.source, way) for way in (1, -1))
        return [self.engines.run(engine, source.model, source.feeds)[0] or [] for source in moved]

    def _alone(self, engine: str) -> bool:
        """Whether it is onnx.reference, which takes calls that are none, and nobody else runs the source."""
        return engine == "onnx.reference" and self.expected(ORDER[0])[0] is None

    def _disputed(self, found: Verdict, other: Verdict) -> Verdict:
        """What is to be believed of two engines that run the source, of which one alone runs the result alike."""
        if other.engine == "as written" and found.status == WRONG and _narrow(found.result):
            return other  # the difference is a rounding that onnxruntime leaves out in one of the forms
        one, two = self.expected(found.engine)[0], self.expected(other.engine)[0]
        assert one is not None
        assert two is not None
        if found.status == WRONG and (apart := _differ(one, two, "close")):
            why = f"{found.engine} and {other.engine} run the source: {apart}; and the result: {found.why}"
            return replace(found, status=UNJUDGED, why=why)
        return replace(found, why=f"{found.why} (not in {other.engine})")


def _in_float32(model: ModelProto) -> bool:
    """Whether an operator computes in float32 whatever it is given: the results may be of float64, and are no more precise."""
    return any(call.node.op_type in STASHING and call.attribute("stash_type", 1) == 1 for call in calls(flat(model)))


def _cut(values: list[Any]) -> list[Any]:
    """The values, what is float64 as float32."""
    with np.errstate(over="ignore"):
        return [v.astype(np.float32) if isinstance(v, np.ndarray) and v.dtype == np.float64 else v for v in values]


def _narrow(model: ModelProto | None) -> bool:
    """Whether float16 or bfloat16 is somewhere in a model: onnxruntime computes most of it in float32."""
    assert model is not None
    inferred = onnx.shape_inference.infer_shapes(model)
    held = [*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output]
    return any(v.type.tensor_type.elem_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16) for v in held) or any(
        a.i in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
        for body in (model.graph.node, *(f.node for f in model.functions))
        for node in every_node(body)
        for a in node.attribute
        if a.name == "to"
    )


def _limit(engine: str, result: ModelProto, why: str) -> bool:
    """Whether it is the engine that lacks what a model needs."""
    return opset(result) < OLDEST_WITH_KERNELS or engine in ("as written", "raised") or lacks(why)


def _differ(expected: list[Any], outputs: list[Any], grade: str) -> str:
    """What differs between outputs; empty if nothing does."""
    if len(expected) != len(outputs):
        return f"{len(outputs)} outputs instead of {len(expected)}"
    for at, (one, other) in enumerate(zip(expected, outputs, strict=True)):
        if why := compare(one, other, grade).why:
            return f"output {at}: {why}"
        if grade == "exact" and _zeros(one, other):
            return f"output {at}: the sign of a zero"
    return ""


def _zeros(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return any(map(_zeros, one, other))
    if not isinstance(one, np.ndarray) or one.dtype.kind != "f":
        return False
    both = (one == 0) & (other == 0)
    return bool((np.signbit(one) != np.signbit(other))[both].any())


def _empty(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.size


def _large(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_large, value))
    return isinstance(value, np.ndarray) and value.dtype == np.int64 and bool((abs(value) > 2**20).any())


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{f.filename.rsplit('/', 1)[-1]}:{f.name}" for f in reversed(frames[-3:]))

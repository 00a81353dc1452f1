"""Runs models in a process of its own, because a backend that is tried out may crash, hang, or print."""

from __future__ import annotations

import importlib
import math
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from opshift.verification import isolation
from opshift.verification.engines import EngineError, Feeds, one_line

_ROUNDING = 1e-6

A = TypeVar("A", covariant=True)


class WorkerQuestion(Protocol[A]):
    """What a worker is asked; it is sent there, and back comes the answer."""

    def answer(self, session: Any) -> A:
        """What a session class of the backend makes of it; raises no exception."""


@dataclass(frozen=True)
class Task:
    """A serialized model, what it is given, what it must yield, and how close that has to be."""

    model: bytes
    feeds: Mapping[str, Any]
    expected: Sequence[Any]
    rtol: float = 1e-3
    atol: float = 1e-7

    def answer(self, session: Any) -> Verdict:
        """What came of it."""
        return _judge(session, self)


@dataclass(frozen=True)
class Verdict:
    """What came of a task: `agrees`, `differs`, `refused` (to load, or to run), `died` or `hung`."""

    status: str
    why: str = ""

    @property
    def agrees(self) -> bool:
        return self.status == "agrees"


@dataclass(frozen=True)
class Yield:
    """What a model yields on each of some inputs, up to those that it fails on, and how it fails: `why` and where."""

    outputs: Sequence[Sequence[Any]] = ()
    why: str = ""
    loaded: bool = True


@dataclass(frozen=True)
class Run:
    """A serialized model, and the inputs that it is run on, one after the other."""

    model: bytes
    feeds: Sequence[Feeds]

    def answer(self, session: Any) -> Yield:
        """What the backend makes of them."""
        import onnx

        found: list[Sequence[Any]] = []
        loaded = False
        try:
            opened = session(onnx.load_model_from_string(self.model))
            loaded = True
            found.extend(opened.run(given) for given in self.feeds)
        except EngineError as error:
            return Yield(found, str(error), loaded)
        except Exception as error:
            return Yield(found, one_line(error), loaded)
        return Yield(found)


class Worker:
    """A process that opens models in one backend (`module:class`), started anew whenever it died or hung."""

    def __init__(self, adapter: str, timeout: float = 20.0):
        self._adapter = adapter
        self._timeout = timeout
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection[Any, Any] | None = None

    def run(self, task: Task) -> Verdict:
        """Open the model, run it, compare what it yields."""
        return self.ask(task)

    def ask(self, question: WorkerQuestion[A], seconds: float = math.inf) -> A | Verdict:
        """What the backend makes of a question; `died` or `hung` where it comes to none, in so many seconds at most."""
        limit = min(self._timeout, seconds)
        try:
            connection = self._connection or self._start()
            connection.send(question)
            if not connection.poll(limit):
                self.stop()
                return Verdict("hung", f"no result within {limit:.3g} s")
            answer: A = connection.recv()
            return answer
        except (EOFError, OSError):
            self.stop()
            return Verdict("died", "the process ended")

    def _start(self) -> Connection[Any, Any]:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._adapter), daemon=True)
        with isolation.hide_script():
            process.start()
        self._process = process
        theirs.close()
        self._connection.recv()  # once it has imported what it needs; that is not part of a task's time
        return self._connection

    def stop(self) -> None:
        """End the process, if there is one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._connection = self._process = None


class Impatient(Worker):
    """A worker that answers for another one, until that has hung so often; then all else hangs, too, at once."""

    def __init__(self, worker: Worker, hangs: int):
        self._asked, self._most, self._hung = worker, hangs, 0

    def ask(self, question: WorkerQuestion[A], seconds: float = math.inf) -> A | Verdict:
        """See `Worker.ask`."""
        if self._hung >= self._most:
            return Verdict("hung", f"{self._most} others did")
        answer = self._asked.ask(question, seconds)
        self._hung += isinstance(answer, Verdict) and answer.status == "hung"
        return answer

    def begin(self) -> None:
        """Be patient again, as with another operator."""
        self._hung = 0


class Tolerant(Worker):
    """A worker that answers for another one, of a backend that computes in half precision.

    A float output may be off by a part of its largest element.
    """

    def __init__(self, worker: Worker, within: float):
        self._asked, self._within = worker, within

    def ask(self, question: WorkerQuestion[A], seconds: float = math.inf) -> A | Verdict:
        """See `Worker.ask`."""
        if isinstance(question, Task):
            wide = max(map(_largest, question.expected), default=0.0) * self._within
            question = replace(question, atol=max(question.atol, wide))
        return self._asked.ask(question, seconds)

    def stop(self) -> None:
        """End the process."""
        self._asked.stop()


def _largest(expected: Any) -> float:
    import numpy as np

    if getattr(expected, "dtype", np.dtype(bool)).kind != "f":
        return 0.0
    wide = np.asarray(expected, np.float64)
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))


def _serve(connection: Connection[Any, Any], adapter: str) -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        isolation.end_with(parent.join)
    isolation.silence()
    import onnx  # noqa: F401

    module, _, name = adapter.partition(":")
    session = getattr(importlib.import_module(module), name)
    connection.send(Verdict("ready"))
    while True:
        try:
            question = connection.recv()
        except EOFError:
            return
        connection.send(question.answer(session))


def _judge(session: Any, task: Task) -> Verdict:
    import onnx

    try:
        yielded = session(onnx.load_model_from_string(task.model)).run(task.feeds)
    except EngineError as error:
        return Verdict("refused", str(error))
    except Exception as error:
        return Verdict("refused", one_line(error))
    if len(yielded) != len(task.expected):
        return Verdict("differs", f"{len(yielded)} outputs instead of {len(task.expected)}")
    for expected, actual in zip(task.expected, yielded, strict=True):
        try:
            why = _difference(expected, actual, task.rtol, task.atol)
        except (TypeError, ValueError) as error:
            why = one_line(error)
        if why:
            return Verdict("differs", why)
    return Verdict("agrees")


def _difference(expected: Any, actual: Any, rtol: float, atol: float) -> str:
    """How two outputs differ, by the tolerances of ONNX's tests and float32's at the tensor's scale; empty if not."""
    import numpy as np

    if expected is None or actual is None:
        return "" if expected is actual else "only one of them is empty"
    if isinstance(expected, list) or isinstance(actual, list):
        if not isinstance(expected, list) or not isinstance(actual, list) or len(expected) != len(actual):
            return "other elements"
        return next(filter(None, (_difference(e, a, rtol, atol) for e, a in zip(expected, actual, strict=True))), "")
    e, a = np.asarray(expected), np.asarray(actual)
    if e.shape != a.shape:
        return f"shape {list(a.shape)} instead of {list(e.shape)}"
    if e.dtype != a.dtype and not (e.dtype.kind in "OSU" and a.dtype.kind in "OSU"):
        return f"type {a.dtype} instead of {e.dtype}"
    if e.dtype.kind in "OSUbiu":
        return "" if np.array_equal(e, a) else "other values"
    wide = np.complex128 if e.dtype.kind == "c" else np.float64
    a, e = a.astype(wide), e.astype(wide)
    scale = np.abs(e[np.isfinite(e)]).max(initial=0.0)
    close = np.allclose(a, e, rtol=rtol, atol=max(atol, _ROUNDING * scale), equal_nan=True)
    return "" if close else "other values"

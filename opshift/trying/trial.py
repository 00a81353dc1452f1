"""Runs models in an installed backend, in a process of its own, and compares what they yield with the source's run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from opshift.files import external
from opshift.passes.errors import InvalidModel
from opshift.passes.model.messages import ModelProto
from opshift.probing import installed
from opshift.probing.installed import Installed
from opshift.probing.proxy import Proxy
from opshift.probing.worker import Run, Verdict, Worker, Yield
from opshift.trying.blame import find_blamed
from opshift.trying.halves import run_in_halves
from opshift.trying.search import AGREES, DIED, DIFFERS, HUNG, REFUSED, Answer
from opshift.verification import isolation
from opshift.verification.engines import ENGINES, EngineError, one_line
from opshift.verification.feeding import inputs as feeding
from opshift.verification.feeding.asked import Asked
from opshift.verification.side import Side

_SERIALIZED = (1 << 31) - 1


Runs = Callable[[bytes, dict[str, Any]], Sequence[Any]]
"""What a model yields of inputs by name; raises where it cannot load or run it."""


@dataclass(frozen=True)
class Expected:
    """What a model is run on, and what it yields there."""

    side: Side
    feeds: tuple[Any, ...]
    outputs: tuple[Any, ...]

    def alike(self) -> Expected:
        """Those of the inputs that have the sizes of the first ones."""
        pairs = zip(self.feeds, self.outputs, strict=True)
        same = [(given, made) for given, made in pairs if _shapes(given) == _shapes(self.feeds[0])]
        return replace(self, feeds=tuple(given for given, _ in same), outputs=tuple(made for _, made in same))


def _shapes(feeds: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _sizes(value) for name, value in feeds.items()}


def _sizes(value: Any) -> Any:
    return getattr(value, "shape", None)


def run_source(source: Side, wanted: Asked) -> Expected:
    """What the source yields in onnxruntime, or in onnx.reference where that does not load it.

    Raises:
        EngineError: no engine runs it.
    """
    try:
        return isolation.call(_run_source, source, wanted)
    except isolation.Ended as ended:
        raise EngineError(str(ended)) from None


def _run_source(source: Side, wanted: Asked) -> Expected:
    reasons = []
    for engine in ENGINES:
        side = replace(source, engine=source.in_place_of(engine))
        try:
            fits = list(feeding.running(side, side.open().run, wanted, single=True))
        except EngineError as error:
            reasons.append(str(error))
            continue
        return Expected(side, tuple(fed.given for fed in fits), tuple(fed.outputs for fed in fits))
    raise EngineError("; ".join(dict.fromkeys(reasons)))


class InstalledBackend:
    """An installed backend; `seconds` is how long a run may take, loading included."""

    options: tuple[str, ...] = ()
    """What its compiler may be told besides a model."""
    within = 0.0
    """How far an output may be off, as a part of its largest element; 0 for the rules of the proof."""
    where = ""
    """How the backend runs models, for the report: `simulator, rk3588, half precision`; empty for a CPU."""
    half = False
    """Whether the backend computes in half precision. Outputs may then be off by what half precision costs."""

    def __init__(self, found: Installed | str, seconds: float | None = None):
        found = installed.find(found) if isinstance(found, str) else found
        self.name, self.release, self.within = found.name, found.release, found.adapter.within
        self.half, self.where = found.adapter.half, found.adapter.where
        self._worker = found.open(seconds)
        self.options = found.options if isinstance(self._worker, Proxy) else ()

    @property
    def full_name(self) -> str:
        """Its name and release, for messages."""
        return f"{self.name} {self.release}".rstrip()

    def answer(
        self,
        model: ModelProto,
        folder: str | None,
        held: Expected,
        *,
        plainly: bool = False,
        seconds: float = math.inf,
        options: Sequence[str] = (),
    ) -> Answer:
        """Whether it runs a model, and yields what is expected by the rules of the proof.

        `plainly`, what rounding does to the model is not measured. Neither the run nor the comparison takes
        longer than `seconds`. Its compiler is told `options`.
        """
        if isinstance(self._worker, Proxy):
            self._worker.options = tuple(options)
        found = self.outputs(model, folder, held.feeds, seconds)
        if isinstance(found, Verdict):
            return Answer(DIED if found.status == "died" else HUNG, found.why)
        if len(found.outputs) < len(held.feeds):
            return Answer(REFUSED, found.why, find_blamed(found.why, model), len(found.outputs))
        try:
            apart = (
                partial(_find_difference, plainly=plainly)
                if not self.within
                else partial(_beyond, within=self.within, half=self.half)
            )
            place, tensor, why, far = isolation.call(isolation.within, seconds, apart, held, found.outputs)
        except isolation.Ended as ended:
            late = f"its outputs were not compared within {seconds:.3g} s"
            return Answer(HUNG, late) if ended.late else Answer(REFUSED, str(ended))
        if not why:
            return Answer(AGREES, far=far)
        sizes = list(map(_sizes, found.outputs[place])) != list(map(_sizes, held.outputs[place]))
        return Answer(DIFFERS, f'"{tensor}": {why}' if tensor else why, place=place, sizes=sizes, far=far)

    def outputs(
        self, model: ModelProto, folder: str | None, feeds: Sequence[Any], seconds: float = math.inf
    ) -> Yield | Verdict:
        """What it makes of some inputs."""
        try:
            whole = external.runnable(model, folder, embedded=True) if folder is not None else model
            if whole.ByteSize() > _SERIALIZED:
                return Yield(why="the model is larger than 2 GB")
            serialized = whole.SerializeToString()
        except InvalidModel as error:
            return Yield(why=str(error))
        return self._ask(serialized, feeds, seconds)

    def _ask(self, serialized: bytes, feeds: Sequence[Any], seconds: float) -> Yield | Verdict:
        return self._worker.ask(Run(serialized, feeds), seconds)

    def stop(self) -> None:
        """End its process."""
        self._worker.stop()


class Given(InstalledBackend):
    """A function that runs a serialized model: it stands for a backend, and runs in this process."""

    def __init__(self, run: Runs):
        self.name = getattr(run, "__name__", type(run).__name__)
        self.release = ""
        self._worker = Worker("")
        self._run = run

    def _ask(self, serialized: bytes, feeds: Sequence[Any], seconds: float) -> Yield | Verdict:
        found: list[Sequence[Any]] = []
        try:
            found.extend(list(self._run(serialized, dict(given))) for given in feeds)
        except Exception as error:
            return Yield(found, one_line(error))
        return Yield(found)

    def stop(self) -> None:
        """Nothing was started."""


def _find_difference(held: Expected, outputs: Sequence[Sequence[Any]], plainly: bool) -> tuple[int, str, str, float]:
    """The first output that differs from the source's, of which inputs, and how."""
    from opshift.verification.bounds import judge_outputs
    from opshift.verification.whole import OutputJudge

    names = [value.name for value in held.side.model.graph.output]
    judge = OutputJudge(held.side, "close", {}, names)
    for place, (given, first, second) in enumerate(zip(held.feeds, held.outputs, outputs, strict=True)):
        if len(second) != len(names):
            return place, "", f"{len(second)} outputs instead of {len(names)}", -1.0
        first, second = _alike(first, second)
        for name, a, b in zip(names, first, second, strict=True):
            why = judge_outputs(a, b, "close").why if plainly else judge.output(name, given, a, b, first).why
            if why:
                return place, name, why, -1.0
    return 0, "", "", -1.0


def _beyond(
    held: Expected, outputs: Sequence[Sequence[Any]], within: float, *, half: bool = False
) -> tuple[int, str, str, float]:
    """The first output that is off by more than a part of its largest element, of which inputs, and how far all are.

    With `half`, it may be off as far as half precision takes it in onnxruntime.
    """
    names = [value.name for value in held.side.model.graph.output]
    first_off, farthest = (0, "", ""), 0.0
    halves: list[Sequence[Any]] | None = None
    for place, (first, second) in enumerate(zip(held.outputs, outputs, strict=True)):
        if len(second) != len(names):
            return place, "", f"{len(second)} outputs instead of {len(names)}", -1.0
        for k, (name, a, b) in enumerate(zip(names, *_alike(first, second), strict=True)):
            why, far = off_by(a, b, within)
            if why and half and _sizes(a) == _sizes(b):
                halves = run_in_halves(held.side, held.feeds) if halves is None else halves
                why = _excuse(a, b, halves[place][k], why, far) if halves else why
            farthest = max(farthest, far)
            first_off = first_off if first_off[2] or not why else (place, name, why)
    return *first_off, farthest


_MOST_IN_HALF = 0.1
"""How far half precision may take an output: what is off by more tells nothing of the backend."""


def _excuse(expected: Any, actual: Any, halved: Any, why: str, far: float) -> str:
    """The difference; empty if half precision alone makes it, which may add up otherwise, to twice as much."""
    import numpy as np

    if np.asarray(expected).dtype.kind not in "fc":
        others = np.asarray(halved) != expected
        return "" if others.any() and not (~others & (np.asarray(actual) != expected)).any() else why
    said, in_half = off_by(expected, np.asarray(halved, np.asarray(expected).dtype), 0.0)
    if in_half <= _MOST_IN_HALF and far <= 2 * in_half:
        return ""
    return f"{why}; in half precision onnxruntime is {said or 'not off'}" if in_half < math.inf else why


def off_by(expected: Any, actual: Any, within: float) -> tuple[str, float]:
    """How two outputs differ by more than a part of the largest element, empty if they do not; by which part of it."""
    import numpy as np

    a, b = np.asarray(expected), np.asarray(actual)
    if a.shape != b.shape:
        return f"shape {list(b.shape)} instead of {list(a.shape)}", math.inf
    if a.dtype.kind != b.dtype.kind:
        return f"{b.dtype} instead of {a.dtype}", math.inf
    if a.dtype.kind not in "fc":
        return ("", 0.0) if np.array_equal(a, b) else ("other values", math.inf)
    a, b = a.astype(np.complex128), b.astype(np.complex128)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        if not finite.any():
            return "the source has no finite number there; try --inputs FILE.npz with real data", math.inf
        return "not finite elsewhere", math.inf
    largest = np.abs(a[finite]).max(initial=0)
    apart = np.abs(a[finite] - b[finite]).max(initial=0)
    far = float(apart / largest) if largest else math.inf if apart else 0.0
    return ("" if far <= within else f"off by {apart:.2g} where the largest element is {largest:.2g}"), far


def _alike(first: Sequence[Any], second: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Both in the narrower precision of the two, as backends compute double as float and many integers as int32."""
    rows = [_to_narrower(a, b) for a, b in zip(first, second, strict=True)]
    return [a for a, _ in rows], [b for _, b in rows]


def _to_narrower(a: Any, b: Any) -> tuple[Any, Any]:
    types = str(getattr(a, "dtype", "")), str(getattr(b, "dtype", ""))
    if set(types) == {"float64", "float32"}:
        return a.astype("float32"), b.astype("float32")
    if types == ("int64", "int32") and a.size and abs(a).max() < 1 << 31:
        return a, b.astype("int64")
    return a, b

"""Engines that run a model: onnxruntime, and onnx.reference for what onnxruntime cannot load."""

from __future__ import annotations

import math
import os
import re
import signal
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from opshift.files import external
from opshift.passes.model import tensor_data
from opshift.passes.model.messages import normalize_domain
from opshift.passes.model.traversal import bodies

if TYPE_CHECKING:
    from onnx import ModelProto

P = ParamSpec("P")
T = TypeVar("T")
Feeds = Mapping[str, Any]
LARGE = 1 << 28
"""Bytes of weights from which on a model is not in memory twice."""


class EngineError(RuntimeError):
    """An engine cannot load a model, or fails while running it. The text is the engine's own, on one line."""


INVALID = re.compile(r"Type Error|TypeInferenceError|ShapeInferenceError|INVALID_GRAPH(?!.*No Op registered)")
"""Errors by which onnxruntime rejects an invalid model. A missing kernel or operator is reported in other words."""


class NeverRuns(EngineError):
    """A model fails at the same node, with the same numbers, whatever sizes its inputs have."""


TOO_LONG = "it takes longer than"


class _Late(BaseException):
    """Raised when time is up; not an `EngineError`, so that nobody catches it and goes on."""


def call_within(seconds: float, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function; raises `EngineError` if its Python code takes longer. There is no limit outside Unix.

    Guards runs of onnx.reference, which is slow.
    """
    alarm = getattr(signal, "setitimer", None)
    if not math.isfinite(seconds) or alarm is None or threading.current_thread() is not threading.main_thread():
        return function(*arguments, **named)
    late = _Late()

    def end(*_: object) -> None:
        raise late

    def restore() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if rest:  # a limit of the whole process goes on
            signal.setitimer(signal.ITIMER_REAL, rest)

    rest, before = 0.0, signal.signal(signal.SIGALRM, end)
    try:
        rest, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return function(*arguments, **named)
        finally:
            restore()
    except _Late as error:  # at any moment until the alarm is off: a context manager would let it pass at its end
        restore()
        if error is not late:
            raise
        raise EngineError(f"{TOO_LONG} {seconds:g} s") from None


class Session(Protocol):
    """A loaded model."""

    engine: str

    def run(self, feeds: Feeds) -> list[Any]:
        """The outputs in the graph's order: arrays, lists of arrays for sequences, None for an empty optional."""


def runtime() -> Any:
    """Import onnxruntime with its telemetry off, unless the environment says otherwise.

    Called when a model is first run.

    Telemetry runs in a thread, which forked copies of this process do not have; they would wait forever for a lock that
    it holds.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # looked at when it is imported
    import onnxruntime

    return onnxruntime


def load() -> None:
    """Import the engines now, so that forked processes have them already.

    Runs in the parent process, before the proof forks.
    """
    with suppress(ImportError):
        runtime()


_MEMORY = "bfc_arena|bad_alloc|[Ff]ailed to allocate memory|Unable to allocate|Cannot allocate memory"
"""What engines, numpy and systems say where there is not as much memory as they ask for."""


def one_line(error: BaseException) -> str:
    """Shorten an error to one line of 300 characters; the end names the innermost node.

    Runs on every error of an engine.
    """
    text = " ".join(str(error).split()) or type(error).__name__
    if re.search(_MEMORY, text):
        return "not enough memory to run it"
    return text if len(text) <= 300 else f"{text[:100]}...{text[-197:]}"


_FOREIGN = r"bfloat16|float[468]e|int[24]\)"
"""The types in onnxruntime's spelling for which numpy has none of its own."""

ABSENT = "onnxruntime is not installed"


class OnnxRuntime:
    """onnxruntime on the CPU, one thread, graph optimizations off, so that it runs the model as written."""

    engine = "onnxruntime"

    def __init__(self, model: ModelProto | bytes, outputs: Sequence[str] | None = None, folder: str | None = None):
        try:
            ort = runtime()
        except ImportError as error:
            raise EngineError(f"{ABSENT} ({one_line(error)})") from None

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.enable_mem_reuse = False  # to plan it takes longer than most runs; the arena has free memory again
        if folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        if not isinstance(model, bytes) and sum(map(tensor_data.nbytes, model.graph.initializer)) > LARGE:
            options.add_session_config_entry("session.disable_prepacking", "1")  # which copies what is mapped
            options.execution_order = ort.ExecutionOrder.PRIORITY_BASED  # casts of weights where they are needed
            options.enable_cpu_mem_arena, options.enable_mem_reuse = False, True

        try:
            if folder is not None and not isinstance(model, bytes):
                aside: external.Aside = {}
                model = external.runnable(model, folder, aside=aside)
                if aside:
                    self._lend(options, model, aside)
            source = model if isinstance(model, bytes) else model.SerializeToString()
            self._session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise EngineError(one_line(error)) from None
        self._outputs = None if outputs is None else list(outputs)
        taken = self._session.get_inputs()
        self._known = {value.name for value in (*taken, *self._session.get_overridable_initializers())}
        yielded = [value for value in self._session.get_outputs() if outputs is None or value.name in outputs]
        if foreign := next((v for v in (*taken, *yielded) if re.search(_FOREIGN, v.type)), None):
            raise EngineError(f"it exchanges no {foreign.type} with numpy ({foreign.name})")
        self._options = ort.RunOptions()
        self._options.log_severity_level = 4

    def _lend(self, options: Any, model: ModelProto, aside: external.Aside) -> None:
        """Give the session weights that are neither in the message nor in external data, without copying them.

        Runs when a model with large weights is opened.
        """
        import onnxruntime as ort

        elem_types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
        make = ort.OrtValue.ortvalue_from_numpy_with_onnx_type
        self._lent = {
            name: make(weight, elem_types[name]) for name, weight in aside.items()
        }  # for as long as the session
        options.add_external_initializers(list(self._lent), list(self._lent.values()))

    def run(self, feeds: Feeds, names: Sequence[str] | None = None) -> list[Any]:
        """See `Session.run`; inner values by `names`, of a model that was opened with `more`; raises `EngineError`."""
        names = self._outputs if names is None else names
        if not self._session.get_outputs():  # it refuses to run for nothing
            return []
        try:
            given = {name: value for name, value in feeds.items() if name in self._known and value is not None}
            outputs = list(self._session.run(names, given, self._options))
            return outputs if names is None else outputs[: len(names)]  # all where no name is given
        except Exception as error:
            raise EngineError(one_line(error)) from None


class Reference:
    """onnx.reference: slow, but it runs every opset."""

    engine = "onnx.reference"
    instead_of = ""
    """Why onnxruntime does not load the model, where that was tried first."""

    def __init__(self, model: ModelProto | bytes, outputs: Sequence[str] | None = None, folder: str | None = None):
        import onnx
        import onnx.reference

        try:
            proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else model
            if folder is not None:
                proto = external.runnable(proto, folder, embedded=True)
            self._evaluator = onnx.reference.ReferenceEvaluator(_with_names(proto))
        except Exception as error:
            raise EngineError(one_line(error)) from None
        self._outputs = None if outputs is None else list(outputs)

    def run(self, feeds: Feeds, names: Sequence[str] | None = None) -> list[Any]:
        """See `Session.run`; inner values by `names`, of a model that was opened with `more`; raises `EngineError`."""
        import numpy as np

        names = self._outputs if names is None else names
        known = set(self._evaluator.input_names)
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of means of nothing
                given = {name: value for name, value in feeds.items() if name in known}
                return list(self._evaluator.run(names, given))
        except Exception as error:
            raise EngineError(one_line(error)) from None


def _with_names(model: ModelProto) -> ModelProto:
    """Name every output, as onnx.reference mixes up outputs without names. Runs when a model is opened."""
    if all(all(node.output) for body in bodies(model) for node in body.node):
        return model
    named = type(model)()
    named.CopyFrom(model)
    for number, body in enumerate(bodies(named)):
        for node in body.node:
            placeholder = f"no output {number} {node.output[:]}"
            node.output[:] = [name or f"{placeholder} {k}" for k, name in enumerate(node.output)]
    return named


ENGINES: tuple[type[OnnxRuntime | Reference], ...] = (OnnxRuntime, Reference)


def is_rough(engine: object, model: ModelProto) -> bool:
    """Check if an engine is less exact than the proof asks for, so that a difference may be its own error.

    onnxruntime turns by angles of 32 bits where a transform's length is no power of 2: 400 numbers are 3e-4 of their
    scale away, 4,000 are 4e-3.
    """
    transforms = {("", "DFT"), ("", "STFT")}
    return engine is OnnxRuntime and any(
        (normalize_domain(node.domain), node.op_type) in transforms for body in bodies(model) for node in body.node
    )

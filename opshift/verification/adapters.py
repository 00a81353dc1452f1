"""Adapters for installed backends (OpenVINO, OpenCV, tract), each with the interface of `Session`.

They are optional: `pip install opshift[openvino]`, `[opencv]` or `[tract]` brings one. Nothing is imported before a
session opens.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from opshift.files import external
from opshift.files.writing import scratch
from opshift.passes.inputs.interface import required_inputs
from opshift.passes.records import dataclass
from opshift.verification import isolation
from opshift.verification.engines import EngineError, Feeds, OnnxRuntime, Reference, Session, one_line

if TYPE_CHECKING:
    from onnx import ModelProto


HALF, NARROW, FLOATS = "half precision", "int32 for int64", "float32 for all types"


@dataclass(frozen=True)
class Adapter:
    """How to open models in a backend.

    Attributes:
        session: the class that opens them in this process, as `module:class`.
        file: the file that opens them in another interpreter: a name in `opshift/adapters`, or a user's path.
        packages: the names of Python packages that may contain the backend.
        seconds: the time limit for one model.
        device: what runs models, if not this machine's processor.
        within: how far an output may be off, relative to its largest element; 0 for the tolerances of the proof.
        effects: what the backend does to values, for the comparison: `HALF`, `NARROW` or `FLOATS`.
    """

    session: str = ""
    file: str = ""
    packages: tuple[str, ...] = ()
    seconds: float = 30.0
    device: str = ""
    within: float = 0.0
    effects: frozenset[str] = frozenset()

    @property
    def half(self) -> bool:
        """Whether it computes in half precision."""
        return HALF in self.effects

    @property
    def where(self) -> str:
        """Name the device and half precision, for reports; empty for this machine's processor in full precision."""
        return ", ".join(filter(None, [self.device, HALF if self.half else ""]))


_WITHIN = 0.01

KNOWN = {
    "onnxruntime": Adapter("opshift.verification.engines:OnnxRuntime", packages=("onnxruntime",)),
    "openvino": Adapter("opshift.verification.adapters:OpenVino", packages=("openvino",)),
    "opencv": Adapter("opshift.verification.adapters:OpenCv", packages=("opencv-python-headless", "opencv-python")),
    "tract": Adapter("opshift.verification.adapters:Tract", packages=("tract",)),
    "mnn": Adapter(file="mnn.py", packages=("MNN",), seconds=120, within=_WITHIN, effects=frozenset({NARROW})),
    "iree": Adapter(
        file="iree.py", packages=("iree-base-compiler", "iree-base-runtime", "onnx"), seconds=300, within=_WITHIN
    ),
    "tvm": Adapter(file="tvm.py", packages=("apache-tvm", "onnx"), seconds=300, within=_WITHIN),
    "rknn": Adapter(
        file="rknn.py",
        packages=("rknn-toolkit2",),
        seconds=300,
        device="simulator, rk3588",
        within=_WITHIN,
        effects=frozenset({HALF}),
    ),
    "ncnn": Adapter(
        file="ncnn.py", packages=("ncnn", "pnnx"), seconds=120, within=_WITHIN, effects=frozenset({FLOATS})
    ),
    "litert": Adapter(
        file="litert.py", packages=("ai-edge-litert", "onnx2tf", "tensorflow"), seconds=300, within=_WITHIN
    ),
    "onnx2torch": Adapter(file="onnx2torch.py", packages=("onnx2torch",), seconds=120, within=_WITHIN),
}
"""Every backend that can be probed and tried. Compilers compute in another order and precision, hence `within`."""

_TELEMETRY = "openvino_telemetry"


def _openvino() -> Any:
    """Import OpenVINO with its telemetry off. Called when the proof first uses OpenVINO.

    Telemetry runs in a thread, which forked copies of this process do not have; they would wait forever for a module
    that it imports.
    """
    isolation.refuse_copies("openvino")
    modules: dict[str, Any] = sys.modules
    new = _TELEMETRY not in modules
    modules.setdefault(_TELEMETRY, None)  # as if it were not installed, which it does not have to be
    try:
        import openvino
    finally:
        if new:
            del modules[_TELEMETRY]
    return openvino


def literally() -> dict[str, object]:
    """Options that keep OpenVINO from replacing the 256 levels of a FakeQuantize by 255."""
    return {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "LP_TRANSFORMS_MODE": "NO"}


class OpenVino:
    """OpenVINO on the CPU, in the precision that the model is written in, on one thread."""

    engine = "openvino"

    def __init__(self, model: ModelProto, outputs: Sequence[str] | None = None, folder: str | None = None):
        openvino = _openvino()
        try:
            if folder is not None:
                model = external.runnable(model, folder, embedded=True)
            core = openvino.Core()
            self._compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", literally())
        except Exception as error:
            raise EngineError(one_line(error)) from None
        self._inputs = list(required_inputs(model))  # by place: a port has every name that its value has, or had
        if len(self._inputs) > len(self._compiled.inputs):  # what nobody reads has none
            kept = set[str]().union(*(port.names for port in self._compiled.inputs))
            self._inputs = [name for name in self._inputs if name in kept]
        if len(self._inputs) != len(self._compiled.inputs):
            raise EngineError(f"{len(self._compiled.inputs)} inputs instead of {len(self._inputs)}")

    def run(self, feeds: Feeds) -> list[Any]:
        """See `Session.run`; raises `EngineError`."""
        try:
            results = self._compiled([feeds[name] for name in self._inputs])
            return [results[index] for index in range(len(self._compiled.outputs))]
        except Exception as error:
            raise EngineError(one_line(error)) from None


class OpenVinoNetwork(OpenVino):
    """OpenVINO running the original network, in place of the ONNX model that was made of it."""

    def __init__(
        self, network: str, model: ModelProto, outputs: Sequence[str] | None = None, folder: str | None = None
    ):
        try:
            openvino = _openvino()
        except ImportError:
            raise EngineError(
                "OpenVINO is not installed, which runs the network (pip install opshift[openvino])"
            ) from None
        try:
            self._compiled = openvino.Core().compile_model(network, "CPU", literally())
        except Exception as error:
            raise EngineError(one_line(error)) from None
        self._inputs = list(required_inputs(model))
        counts = len(self._compiled.inputs), len(self._compiled.outputs)
        if counts != (len(self._inputs), len(model.graph.output)):
            raise EngineError(f"{counts[0]} inputs and {counts[1]} outputs, which the model does not have")


JUDGES: dict[str, Callable[..., Session]] = {"onnxruntime": OnnxRuntime, "reference": Reference, "openvino": OpenVino}
"""What runs both forms where a user names it."""


@cache
def running(network: str) -> Callable[..., OpenVinoNetwork]:
    """Make an engine that opens a network file in place of the ONNX model that was made of it."""
    return partial(OpenVinoNetwork, network)


class OpenCv:
    """OpenCV's DNN module."""

    engine = "opencv"

    def __init__(self, model: ModelProto, outputs: Sequence[str] | None = None, folder: str | None = None):
        import cv2
        import numpy as np

        self._inputs = list(required_inputs(model))
        self._outputs = [value.name for value in model.graph.output]
        try:
            self._net = cv2.dnn.readNetFromONNX(np.frombuffer(model.SerializeToString(), np.uint8))
        except Exception as error:
            raise EngineError(_shorten_error(error)) from None

    def run(self, feeds: Feeds) -> list[Any]:
        """See `Session.run`; raises `EngineError`."""
        try:
            for name in self._inputs:
                self._net.setInput(feeds[name], name)
            return list(self._net.forward(self._outputs))
        except Exception as error:
            raise EngineError(_shorten_error(error)) from None


_PLACE = re.compile(r"OpenCV\([\d.]+\) \S*?(\w+\.\w+:\d+): error: \(\S+?( [^()]*)?\)")
"""Where OpenCV says that it has failed: the version, a file of its source, a number and a kind of error."""


def _shorten_error(error: Exception) -> str:
    """Shorten an OpenCV error to the places where it failed, outermost first."""
    return one_line(
        ValueError(_PLACE.sub(r"\1:", str(error).replace("\n>", "\n")).replace(" in function 'handleNode'", ""))
    )


class Tract:
    """tract, which reads models from files."""

    engine = "tract"

    def __init__(self, model: ModelProto, outputs: Sequence[str] | None = None, folder: str | None = None):
        import tract

        with scratch() as place:
            path = os.path.join(place, "model.onnx")
            with open(path, "wb") as file:
                file.write(model.SerializeToString())
            try:
                loaded = tract.onnx().load(path)
                self._inputs = [loaded.input_name(index) for index in range(loaded.input_count())]
                self._runnable = loaded.into_model().into_runnable()
            except Exception as error:
                raise EngineError(_words(error)) from None

    def run(self, feeds: Feeds) -> list[Any]:
        """See `Session.run`; raises `EngineError`."""
        try:
            return [_numbers(tensor) for tensor in self._runnable.run([feeds[name] for name in self._inputs])]
        except Exception as error:
            raise EngineError(_words(error)) from None


def _words(error: Exception) -> str:
    """Shorten a tract error to its message, without the places in tract's code."""
    return one_line(ValueError(str(error).partition("Stack backtrace")[0]))


def _numbers(tensor: Any) -> Any:
    """Convert a tract tensor to an array; its own type for sizes becomes int64. Runs on each output of tract."""
    import tract
    from tract.tensor import DatumType

    try:
        return tensor.to_numpy()
    except tract.TractError:
        return tensor.convert_to(DatumType.I64).to_numpy()

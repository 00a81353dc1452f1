"""An entry of the table of quirks, and the calls that several entries show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from onnx import ModelProto

from tests.node_calls import Call
from tests.support import model

RUNTIME, REFERENCE = "onnxruntime", "onnx.reference"
RAISED = "onnxruntime after onnx's converter"


@dataclass(frozen=True)
class Evidence:
    """A model in ONNX text, its inputs, and its outputs by the text of the operator."""

    body: str
    opset: int
    inputs: str
    outputs: str
    feeds: Mapping[str, Any]
    right: tuple[Any, ...]
    constants: str = ""
    domains: str = ""

    @property
    def model(self) -> ModelProto:
        io = {"inputs": self.inputs, "outputs": self.outputs, "constants": self.constants, "domains": self.domains}
        return model(self.body, self.opset, **io)


@dataclass(frozen=True)
class Quirk:
    """What an engine computes otherwise than the text says, and when."""

    engine: str
    seen: str  # the version in which it was seen last
    operators: tuple[str, ...]
    when: str
    gives: str
    text: str
    applies: Callable[[Call], bool]
    evidence: Evidence
    only: str = ""  # the difference that it makes, where it makes no other
    mended: str = ""  # the version from which on the engine computes as the text says
    shows: bool = True  # not what nobody wrote, of which each run may show something else

    def of(self, call: Call) -> bool:
        """Whether it is such a call; one that is not even well-formed is left to onnx.checker."""
        try:
            return call.node.op_type in self.operators and self.applies(call)
        except (ArithmeticError, IndexError, TypeError, ValueError):
            return False

    @property
    def holds(self) -> bool:
        """Whether the installed engine computes so."""
        package = "onnx" if self.engine == REFERENCE else "onnxruntime"
        return not self.mended or _numbers(version(package)) < _numbers(self.mended)


def _numbers(release: str) -> list[int]:
    return [int(number) for number in release.split(".")[:2]]


def f(*values: float, shape: tuple[int, ...] = (-1,)) -> Any:
    return np.array(values, np.float32).reshape(shape)


def s(value: float) -> Any:
    return np.array(value, np.float32)


NAN, INF = np.nan, np.inf
ONES, EYES = np.ones((2, 2, 2), np.float32), np.float32([1, 0, 0, 0])
CUBE = {"inputs": "float[2,2,2] x", "outputs": "float[2,2,2] y", "feeds": {"x": ONES}}
BOUNDS = ("float[4] x, float lo, float hi", "float[4] y")
HALVES = {name: np.array([value], np.float16) for name, value in (("x", 1.005), ("s", 1.005), ("t", 1.0))}
CROP = {"x": f(0, 1, 2, 3, shape=(1, 1, 1, 4)), "roi": f(0, 0, 0, 0.25, 1, 1, 1, 0.75), "s": f(1, 1, 1, 1)}
CROPPED = Evidence(
    'y = Resize<coordinate_transformation_mode="tf_crop_and_resize", mode="linear">(x, roi, s)', 13,
    "float[1,1,1,4] x, float[8] roi, float[4] s", "float[1,1,1,N] y", CROP, (f(0.75, 2.25, shape=(1, 1, 1, 2)),),
)  # fmt: skip
CELL = {"x": f(1, shape=(1, 1, 1)), "w": np.full((1, 4, 1), 2, np.float32), "r": np.zeros((1, 4, 1), np.float32)}
LENGTHS = {
    "x": np.ones((2, 2, 1), np.float32), "w": f(1, shape=(1, 1, 1)), "r": f(0, shape=(1, 1, 1)),
    "l": np.array([0, 2], np.int32), "i": f(0.25, 0.25, shape=(1, 2, 1)),
}  # fmt: skip
TANH = float(np.tanh(np.float32(1)))
RUN = Evidence(
    "all, y = RNN<hidden_size=1>(x, w, r, , l, i)", 14,
    "float[2,2,1] x, float[1,1,1] w, float[1,1,1] r, int32[2] l, float[1,2,1] i", "float[1,2,1] y", LENGTHS,
    (f(0.25, TANH, shape=(1, 2, 1)),),
)  # fmt: skip
COUNTED = Evidence(
    "y = OneHot(i, d, v)", 9, "int64[1] i, int64 d, float[2] v", "float[1,N] y",
    {"i": np.array([-1]), "d": np.array(2), "v": f(0, 1)}, (f(0, 0, shape=(1, 2)),),
)  # fmt: skip
RECURRENT = ("RNN", "GRU", "LSTM")
REDUCTIONS = tuple(
    f"Reduce{what}" for what in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
ALONG_AXIS = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
DROPPED = Evidence(
    "all, y = Dropout<ratio=0.5>(x)", 10, "float[2] x", "bool[2] y", {"x": f(1, 1)}, (np.array([True, True]),)
)

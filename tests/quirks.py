"""What engines compute otherwise than the text of an operator: one table, with evidence for each entry.

A judge asks `excuse(engine, model, feeds)` before it believes an engine: the text that comes back says why that engine is
no judge of that model; empty, it may judge. Without `feeds` only what hangs on the model alone is found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from onnx import ModelProto

from tests import conditions as when
from tests.node_calls import Call, calls
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

    @property
    def model(self) -> ModelProto:
        return model(self.body, self.opset, inputs=self.inputs, outputs=self.outputs, constants=self.constants)


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


def excuse(engine: str, of: ModelProto, feeds: Mapping[str, Any] | None = None, differs: str = "") -> str:
    """Why an engine is no judge of a model on these inputs, or of what `differs` there; empty where it may judge."""
    rows = [quirk for quirk in QUIRKS if engine.startswith(quirk.engine) and (not quirk.only or quirk.only in differs)]
    found = (
        f"{quirk.engine}: {call.node.op_type} where {quirk.when} {quirk.gives}"
        for call in calls(of, feeds)
        for quirk in rows
        if call.node.op_type in quirk.operators and quirk.applies(call)
    )
    return next(found, "")


def _f(*values: float, shape: tuple[int, ...] = (-1,)) -> Any:
    return np.array(values, np.float32).reshape(shape)


def _s(value: float) -> Any:
    return np.array(value, np.float32)


NAN, INF = np.nan, np.inf
ONES, EYES = np.ones((2, 2, 2), np.float32), np.float32([1, 0, 0, 0])
CUBE = {"inputs": "float[2,2,2] x", "outputs": "float[2,2,2] y", "feeds": {"x": ONES}}
BOUNDS = ("float[4] x, float lo, float hi", "float[4] y")
HALVES = {name: np.array([value], np.float16) for name, value in (("x", 1.005), ("s", 1.005), ("t", 1.0))}
CROP = {"x": _f(0, 1, 2, 3, shape=(1, 1, 1, 4)), "roi": _f(0, 0, 0, 0.25, 1, 1, 1, 0.75), "s": _f(1, 1, 1, 1)}
CROPPED = Evidence(
    'y = Resize<coordinate_transformation_mode="tf_crop_and_resize", mode="linear">(x, roi, s)', 13,
    "float[1,1,1,4] x, float[8] roi, float[4] s", "float[1,1,1,N] y", CROP, (_f(0.75, 2.25, shape=(1, 1, 1, 2)),),
)  # fmt: skip
CELL = {"x": _f(1, shape=(1, 1, 1)), "w": np.full((1, 4, 1), 2, np.float32), "r": np.zeros((1, 4, 1), np.float32)}
LENGTHS = {
    "x": np.ones((2, 2, 1), np.float32), "w": _f(1, shape=(1, 1, 1)), "r": _f(0, shape=(1, 1, 1)),
    "l": np.array([0, 2], np.int32), "i": _f(0.25, 0.25, shape=(1, 2, 1)),
}  # fmt: skip
TANH = float(np.tanh(np.float32(1)))
RUN = Evidence(
    "all, y = RNN<hidden_size=1>(x, w, r, , l, i)", 14,
    "float[2,2,1] x, float[1,1,1] w, float[1,1,1] r, int32[2] l, float[1,2,1] i", "float[1,2,1] y", LENGTHS,
    (_f(0.25, TANH, shape=(1, 2, 1)),),
)  # fmt: skip
COUNTED = Evidence(
    "y = OneHot(i, d, v)", 9, "int64[1] i, int64 d, float[2] v", "float[1,N] y",
    {"i": np.array([-1]), "d": np.array(2), "v": _f(0, 1)}, (_f(0, 0, shape=(1, 2)),),
)  # fmt: skip
RECURRENT = ("RNN", "GRU", "LSTM")
REDUCTIONS = tuple(
    f"Reduce{what}" for what in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
ALONG_AXIS = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
DROPPED = Evidence(
    "all, y = Dropout<ratio=0.5>(x)", 10, "float[2] x", "bool[2] y", {"x": _f(1, 1)}, (np.array([True, True]),)
)

QUIRKS: tuple[Quirk, ...] = (
    Quirk(
        REFERENCE, "1.23.2", ("AveragePool",), "the opset is below 7", "counts what was padded",
        "the average of what is there, as from opset 7 on by default", when.below(7),
        Evidence(
            'y = AveragePool<kernel_shape=[2,2], pads=[0,0,1,1]>(x)', 6, "float[1,1,1,1] x", "float[1,1,1,1] y",
            {"x": np.ones((1, 1, 1, 1), np.float32)}, (np.ones((1, 1, 1, 1), np.float32),),
        ),
    ),
    Quirk(
        REFERENCE, "1.23.2", ("Loop",), "no condition is given", "runs no iteration", "runs all iterations",
        when.left_out(1), Evidence(
            "y = Loop(n, , x) <body = b (int64 i, bool c, float[2,1] v) => (bool d, float[2,1] w) "
            "{ d = Identity(c) w = Add(v, v) }>", 16,
            "int64 n, float[2,1] x", "float[2,1] y", {"n": np.array(2), "x": np.ones((2, 1), np.float32)},
            (np.full((2, 1), 4, np.float32),),
        ),
    ),
    Quirk(
        REFERENCE, "1.23.2", ("Loop",), "values are stacked", "joins them along their first axis",
        "stacks them along a new axis", when.stacks, Evidence(
            "y = Loop(n, t) <body = b (int64 i, bool c) => (bool d, float[2,1] w) { d = Identity(c) w = Identity(x) }>",
            16, "int64 n, bool t, float[2,1] x", "float[N,2,1] y",
            {"n": np.array(2), "t": np.array(True), "x": np.ones((2, 1), np.float32)},
            (np.ones((2, 2, 1), np.float32),),
        ),
    ),
    # operators that onnx.reference computes as their newer versions have them
    Quirk(REFERENCE, "1.23.2", ("Softmax",), "the opset is below 13", "is computed along the last axis alone",
          "along all axes from the given one on, 1 by default", when.below(13),
          Evidence("y = Softmax(x)", 11, **CUBE, right=(ONES / 4,))),
    Quirk(REFERENCE, "1.23.2", ("LogSoftmax",), "the opset is below 13", "is computed along the last axis alone",
          "along all axes from the given one on, 1 by default", when.below(13),
          Evidence("y = LogSoftmax(x)", 11, **CUBE, right=(np.log(ONES / 4),))),
    Quirk(REFERENCE, "1.23.2", ("Hardmax",), "the opset is below 13", "is computed along the last axis alone",
          "along all axes from the given one on, 1 by default", when.below(13),
          Evidence("y = Hardmax(x)", 11, **CUBE, right=(np.stack([EYES, EYES]).reshape(2, 2, 2),))),
    Quirk(REFERENCE, "1.23.2", ("Scan",), "the opset is below 9", "refuses it",
          "sequence_lens come first, and each sequence of a batch is scanned",  # a body that takes the absent one runs
          when.below(9), Evidence("y = Scan<num_scan_inputs=1, body = b (float e) => (float r) { r = Neg(e) }>(, x)", 8,
                              "float[1,2] x", "float[1,2] y", {"x": _f(1, 2, shape=(1, 2))}, (_f(-1, -2, shape=(1, 2)),))),
    Quirk(REFERENCE, "1.23.2", ("PRelu",), "the opset is below 7", "takes one slope for each place of the last axis",
          "one slope for each channel", when.below(7),
          Evidence("y = PRelu(x, s)", 6, "float[1,2,2] x, float[2] s", "float[1,2,2] y",
                   {"x": -ONES[:1], "s": _f(1, 2)}, (_f(-1, -1, -2, -2, shape=(1, 2, 2)),))),
    Quirk(REFERENCE, "1.23.2", ("RoiAlign",), "the opset is below 16", "moves the regions by half a pixel",
          "regions are taken as they are", when.below(16),
          Evidence("y = RoiAlign<output_height=1, output_width=1, sampling_ratio=1>(x, r, b)", 10,
                   "float[1,1,4,4] x, float[1,4] r, int64[1] b", "float[1,1,1,1] y",
                   {"x": _f(*range(16), shape=(1, 1, 4, 4)), "r": _f(0, 0, 2, 2, shape=(1, 4)), "b": np.array([0])},
                   (_f(5, shape=(1, 1, 1, 1)),))),
    *(
        Quirk(engine, seen, ("Gelu",), "numbers of 64 bits go through tanh", "has constants of 32 bits", "the formula, of 64 bits",
              lambda call: call.attribute("approximate") in (b"tanh", "tanh") and getattr(call.given(0), "dtype", np.float64) == np.float64,
              Evidence('y = Gelu<approximate="tanh">(x)', 20, "double[1] x", "double[1] y", {"x": np.ones(1)},
                       (np.array([0.8411919906082768]),)), "elements differ")
        for engine, seen in ((RUNTIME, "1.31.1"), (REFERENCE, "1.23.2"))
    ),
    *(
        Quirk(engine, "1.23.2", ("Selu",), "the opset is below 6 and alpha or gamma is left out", "takes the defaults of opset 6",
              "1.6732 and 1.0507", lambda call: call.opset < 6 and None in map(call.attribute, ("alpha", "gamma")),
              Evidence("y = Selu(x)", 1, "float[1] x", "float[1] y", {"x": _f(-1)}, (_f(-1.1112876),)))
        for engine in (REFERENCE, RAISED)
    ),
    Quirk(REFERENCE, "1.23.2", ("GridSample",), "places are numbers of 16 bits", "computes with them in 16 bits",
          "values are interpolated at these places",
          lambda call: call.given(1) is not None and call.given(1).dtype.itemsize == 2,
          Evidence("y = GridSample(x, g)", 22, "float[1,1,3,2] x, bfloat16[1,1,1,2] g", "float[1,1,1,1] y",
                   {"x": _f(*range(1, 7), shape=(1, 1, 3, 2)), "g": np.full((1, 1, 1, 2), -0.2001953125, bfloat16)},
                   (_f(2.69921875, shape=(1, 1, 1, 1)),)), "elements differ"),
    Quirk(REFERENCE, "1.23.2", ALONG_AXIS, "the second input is broadcast along an axis (opset 6 and below)",
          "broadcasts it along the last axes", "along the axes from the given one on",
          lambda call: call.opset < 7 and {"axis", "broadcast"} <= {a.name for a in call.node.attribute},
          Evidence("y = Add<axis=0, broadcast=1>(x, s)", 6, "float[2,2] x, float[2] s", "float[2,2] y",
                   {"x": 0 * ONES[0], "s": _f(1, 2)}, (_f(1, 1, 2, 2, shape=(2, 2)),))),
    Quirk(REFERENCE, "1.23.2", ("OneHot",), "an index is negative (opset 10 and below)", "counts it from the end", "no place at all",
          when.negative_index, COUNTED),
    Quirk(REFERENCE, "1.23.2", ("PRelu",), "there is a zero", "multiplies it by the slope", "f(x) = x for x >= 0",
          lambda call: call.given(0) is None or when.holds(call.given(0), lambda x: x == 0),
          Evidence("p = PRelu(x, s) y = Reciprocal(p)", 16, "float[1] x, float[1] s", "float[1] y",
                   {"x": _f(0), "s": _f(-1)}, (_f(INF),)), "the sign of a zero"),
    Quirk(REFERENCE, "1.23.2", ("BatchNormalization",), "the opset is from 9 to 13", "updates the means before it uses them",
          "the means that are given are used where one output is named", lambda call: 9 <= call.opset < 14,
          Evidence("y = BatchNormalization(x, s, b, m, v)", 9,
                   "float[1,1,1] x, float[1] s, float[1] b, float[1] m, float[1] v", "float[1,1,1] y",
                   {"x": _f(1, shape=(1, 1, 1)), "s": _f(1), "b": _f(0), "m": _f(0), "v": _f(1)},
                   (_f(0.999995, shape=(1, 1, 1)),))),
    Quirk(REFERENCE, "1.23.2", ("LpNormalization",), "p is 1", "divides by the sum of the numbers", "by that of their magnitudes",
          lambda call: call.attribute("p", 2) == 1,
          Evidence("y = LpNormalization<p=1>(x)", 22, "float[2] x", "float[2] y", {"x": _f(1, -3)}, (_f(0.25, -0.75),))),
    # what onnx.reference leaves out
    Quirk(REFERENCE, "1.23.2", RECURRENT, "sequences have lengths of their own", "runs all of them to the end",
          "each runs as many steps as it has", when.shorter, RUN),
    Quirk(REFERENCE, "1.23.2", RECURRENT, "there is a clip", "does not clip", "what activations are given is clipped",
          lambda call: call.attribute("clip") is not None,
          Evidence("all, y = GRU<hidden_size=1, clip=0.5>(x, w, r)", 14,
                   "float[1,1,1] x, float[1,3,1] w, float[1,3,1] r", "float[1,1,1] y",
                   {name: value[:, :3] for name, value in CELL.items()}, (_f(0.17446803, shape=(1, 1, 1)),))),
    Quirk(REFERENCE, "1.23.2", ("OneHot",), "indices or the depth are not whole numbers", "finds no such place",
          "both are cast to int64", lambda call: not (when.whole(call, 0) and when.whole(call, 1)),
          Evidence("y = OneHot(i, d, v)", 11, "int64[2] i, float d, float[2] v", "float[2,N] y",
                   {"i": np.array([0, -1]), "d": _s(2.7), "v": _f(0, 1)}, (_f(1, 0, 0, 1, shape=(2, 2)),))),
    Quirk(REFERENCE, "1.23.2", ("Resize",), "a region is cropped and scales are given", "keeps the size of the whole",
          "the size is that of the region times the scales", when.cropped_by_scales, CROPPED),
    Quirk(REFERENCE, "1.23.2", ("Resize",), "the nearest element is taken, and there is NaN or an infinity",
          "multiplies the elements beside it by 0", "one element", when.nearest_of_not_finite,
          Evidence("y = Resize(x, , s)", 13, "float[1,1,1,2] x, float[4] s", "float[1,1,1,4] y",
                   {"x": _f(1, NAN, shape=(1, 1, 1, 2)), "s": _f(1, 1, 1, 2)}, (_f(1, 1, NAN, NAN, shape=(1, 1, 1, 4)),)),
          "nan"),
    Quirk(REFERENCE, "1.23.2", ("DynamicQuantizeLinear",), "all numbers are 0", "has a scale of 1 / 255",
          "the scale is (max - min) / 255", lambda call: call.given(0) is not None and not call.given(0).any(),
          Evidence("q, y, z = DynamicQuantizeLinear(x)", 11, "float[3] x", "float y", {"x": _f(0, 0, 0)}, (_s(0),))),
    # onnxruntime
    Quirk(RUNTIME, "1.31.1", ("DynamicQuantizeLinear",), "all numbers are 0", "has a scale of 1",
          "the scale is (max - min) / 255", lambda call: call.given(0) is not None and not call.given(0).any(),
          Evidence("q, y, z = DynamicQuantizeLinear(x)", 11, "float[3] x", "float y", {"x": _f(0, 0, 0)}, (_s(0),))),
    Quirk(RUNTIME, "1.31.1", ("Resize",), "a region is cropped and scales are given", "does not crop",
          "the size is that of the region times the scales", when.cropped_by_scales, CROPPED),
    Quirk(RUNTIME, "1.31.1", ("Resize",), "corners are aligned of a size that scales make no whole number",
          "cuts the size first", "as ONNX's tests have it: the size as the scales make it", when.cuts_aligned,
          Evidence('y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, , s)', 13,
                   "float[1,1,1,4] x, float[4] s", "float[1,1,1,N] y",
                   {"x": _f(1, 2, 3, 4, shape=(1, 1, 1, 4)), "s": _f(1, 1, 1, 0.6)},
                   (_f(1, 3.1428571, shape=(1, 1, 1, 2)),))),
    Quirk(RUNTIME, "1.31.1", ("Cast",), "a subgraph reads a Cast of a Cast", "refuses it",
          "the value; without optimizations, too, it takes out the one and forgets the other", when.never,
          Evidence("a = Cast<to=1>(x) b = Cast<to=1>(a) y = If(c) <then_branch = t () => (float[M] u) { u = Neg(b) }, "
                   "else_branch = e () => (float[M] v) { v = Abs(b) }>", 13, "float[2] x, bool c", "float[2] y",
                   {"x": _f(1, 2), "c": np.array(True)}, (_f(-1, -2),))),
    Quirk(RUNTIME, "1.31.1", ("OneHot",), "an index is negative (opset 10 and below)", "counts it from the end", "no place at all",
          when.negative_index, COUNTED),
    Quirk(RUNTIME, "1.31.1", ("Scan",), "there is no step", "refuses it, or yields what nobody wrote", "the states as they begin",
          lambda call: any(0 in (call.shape(at) or ()) for at in range(len(call.node.input))),
          Evidence("y = Scan<num_scan_inputs=1, body = b (float[1] s, float[1] e) => (float[1] t) { t = Add(s, e) }>(, i, x)", 8,
                   "float[1,1] i, float[1,0,1] x", "float[1,1] y",
                   {"i": _f(0.123, shape=(1, 1)), "x": np.zeros((1, 0, 1), np.float32)}, (_f(0.123, shape=(1, 1)),))),
    Quirk(RUNTIME, "1.31.1", ("OneHot",), "indices or the depth are not whole numbers", "sets no place at all",
          "both are cast to int64", lambda call: not (when.whole(call, 0) and when.whole(call, 1)),
          Evidence("y = OneHot(i, d, v)", 11, "float[1] i, float d, float[2] v", "float[1,2] y",
                   {"i": _f(1.9), "d": _s(2), "v": _f(0, 1)}, (_f(0, 1, shape=(1, 2)),))),
    Quirk(RUNTIME, "1.31.1", ("Clip",), "a bound is NaN", "leaves that bound out", "Min(max, Max(x, min)), which is NaN",
          when.nan(1, 2), Evidence("y = Clip(x, lo, hi)", 13, *BOUNDS, {"x": _f(-2, 0.5, 3, 4), "lo": _s(NAN), "hi": _s(1)},
                               (_f(NAN, NAN, NAN, NAN),))),
    Quirk(RUNTIME, "1.31.1", ("Clip",), "all numbers are beyond an infinite bound", "yields the largest finite number",
          "the bound", when.infinite_bound,
          Evidence("y = Clip(x, lo)", 13, "float[2] x, float lo", "float[2] y", {"x": _f(-2, 3), "lo": _s(INF)},
                   (_f(INF, INF),))),
    Quirk(RUNTIME, "1.31.1", ("Unique",), "there is NaN", "takes all numbers for equal",
          "as numpy.unique, for which NaN is the largest number", when.nan(0),
          Evidence("y = Unique(x)", 11, "float[4] x", "float[N] y", {"x": _f(NAN, 1, -1, 1)}, (_f(-1, 1, NAN),))),
    Quirk(RUNTIME, "1.31.1", ("ReduceMax", "ReduceMin"), "there is NaN", "loses it", "as numpy, which keeps it", when.nan(0),
          Evidence("y = ReduceMax(x)", 13, "float[3] x", "float[1] y", {"x": _f(1, NAN, 2)}, (_f(NAN),))),
    Quirk(RUNTIME, "1.31.1", ("Gather",), "strings are gathered along an axis before the last",
          "yields the first of each slice alone", "all elements of each slice", when.slices_of_strings,
          Evidence("y = Gather(x, i)", 13, "string[1,2] x, int64 i", "string[2] y",
                   {"x": np.array([["a", "b"]], dtype=object), "i": np.array(0)}, (np.array(["a", "b"], dtype=object),))),
    Quirk(RUNTIME, "1.31.1", ("Hardmax",), "there is NaN", "has no 1 where it comes first, and passes it over elsewhere",
          "as numpy.argmax, for which NaN is the largest number", when.nan(0),
          Evidence("y = Hardmax(x)", 13, "float[2,3] x", "float[2,3] y", {"x": _f(NAN, 1, 2, 1, NAN, 2, shape=(2, 3))},
                   (_f(1, 0, 0, 0, 1, 0, shape=(2, 3)),))),
    Quirk(RUNTIME, "1.31.1", ("ArgMax", "ArgMin"), "there is NaN", "passes it over where it does not come first",
          "as numpy.argmax, for which NaN is the largest number", when.nan(0),
          Evidence("y = ArgMax<axis=1>(x)", 13, "float[2,3] x", "int64[2,1] y",
                   {"x": _f(1, NAN, 2, 1, 2, NAN, shape=(2, 3))}, (np.array([[1], [2]]),))),
    Quirk(RUNTIME, "1.31.1", ("MaxPool",), "there may be NaN", "loses it", "the maximum, which ReduceMax and Max keep NaN for",
          lambda call: call.given(0) is None or when.nan(0)(call),
          Evidence("y = MaxPool<kernel_shape=[2]>(x)", 12, "float[1,1,3] x", "float[1,1,2] y", {"x": _f(2, NAN, 1, shape=(1, 1, 3))},
                   (_f(NAN, NAN, shape=(1, 1, 2)),)), "nan"),
    Quirk(RUNTIME, "1.31.1", REDUCTIONS, "what has no element is reduced along an axis counted from the end", "keeps its size",
          "1", when.empty_from_the_end,
          Evidence("y = ReduceSum(x, a)", 13, "float[2,0,4] x, int64[1] a", "float[A,B,C] y",
                   {"x": np.zeros((2, 0, 4), np.float32), "a": np.array([-1])}, (np.zeros((2, 0, 1), np.float32),))),
    Quirk(RUNTIME, "1.31.1", REDUCTIONS, "what may have no element is reduced along an axis counted from the end", "keeps its size",
          "1", when.unknown_from_the_end,
          Evidence("_, y = Loop(n, t, x) <body = b (int64 i, bool c, float[A,B,C] v) => (bool d, float[A,B,C] u, float[A,B,C] w) "
                   "{ d = Identity(c) u = Identity(v) m = Reshape(v, s) w = ReduceSum(m, a) }>", 13,
                   "int64 n, bool t, float[2,0,4] x, int64[R] s, int64[1] a", "float[L,A,B,C] y",
                   {"n": np.array(1), "t": np.array(True), "x": np.zeros((2, 0, 4), np.float32), "s": np.array([2, 0, 4]),
                    "a": np.array([-1])}, (np.zeros((1, 2, 0, 1), np.float32),)), "shape"),
    Quirk(RUNTIME, "1.31.1", ("ReduceMean",), "the tensor is empty", "yields 0", "undefined; 0 / 0 by its definition",
          when.empty, Evidence("y = ReduceMean<axes=[0], keepdims=0>(x)", 13, "float[N,2] x", "float[2] y",
                           {"x": np.zeros((0, 2), np.float32)}, (_f(NAN, NAN),))),
    Quirk(RUNTIME, "1.31.1", ("ReduceSum", "ReduceL1"), "integers are larger than 2^53", "goes through float64",
          "a sum of integers",
          lambda call: np.asarray(call.given(0)).dtype == np.int64 and bool((np.abs(call.given(0)) > 2**53).any()),
          Evidence("y = ReduceSum(x)", 13, "int64[1] x", "int64[1] y", {"x": np.array([2**53 + 1])},
                   (np.array([2**53 + 1]),))),
    Quirk(RUNTIME, "1.31.1", ("Squeeze",), "axes are given and empty", "takes out all axes of size 1", "takes out none",
          lambda call: call.shape(1) == (0,),
          Evidence("y = Squeeze(x, a)", 13, "float[1,3] x, int64[K] a", "float[M,N] y",
                   {"x": _f(1, 2, 3, shape=(1, 3)), "a": np.zeros(0, np.int64)}, (_f(1, 2, 3, shape=(1, 3)),))),
    Quirk(RUNTIME, "1.31.1", ("Loop",), "strings from outside are stacked as they are", "has them in the first trip alone",
          "all trips yield them", when.strings_from_outside,
          Evidence("y = Loop(n, t) <body = b (int64 i, bool c) => (bool d, string[1] w) { d = Identity(c) w = Identity(x) }>",
                   16, "int64 n, bool t, string[1] x", "string[2,1] y",
                   {"n": np.array(2), "t": np.array(True), "x": np.array(["a"], dtype=object)},
                   (np.array([["a"], ["a"]], dtype=object),))),
    Quirk(RUNTIME, "1.31.1", ("Where",), "there is -0.0", "loses its sign", "the values as they are",
          lambda call: any(when.holds(call.given(i), lambda v: (v == 0) & np.signbit(v)) for i in (1, 2)),
          Evidence("w = Where(c, x, z) y = Reciprocal(w)", 13, "bool[1] c, float[1] x, float[1] z", "float[1] y",
                   {"c": np.array([True]), "x": _f(-0.0), "z": _f(1)}, (_f(-INF),))),
    Quirk(RUNTIME, "1.31.1", ("Where",), "there may be -0.0", "loses its sign", "the values as they are",
          lambda call: any(call.given(i) is None for i in (1, 2)),
          Evidence("y = Loop(k, c, x) <body = b (int64 i, bool t, float[1] s) => (bool e, float[1] a) "
                   "{ e = Identity(t) n = Neg(s) w = Where(d, n, s) a = Reciprocal(w) }>", 13,
                   "int64 k, bool c, bool[1] d, float[1] x", "float[1] y",
                   {"k": np.array(1), "c": np.array(True), "d": np.array([True]), "x": _f(0)}, (_f(-INF),)),
          "the sign of a zero"),
    Quirk(RUNTIME, "1.31.1", ("Dropout",), "the opset is below 12 and the mask is asked for", "says that all is dropped",
          "nothing is dropped where nothing is trained", lambda call: call.opset < 12 and len(call.node.output) > 1, DROPPED),
    Quirk(RUNTIME, "1.31.1", ("NegativeLogLikelihoodLoss",), "a target is ignored", "has a loss of -0.0 there", "0",
          when.ignores,
          Evidence('l = NegativeLogLikelihoodLoss<ignore_index=-5, reduction="none">(x, t) y = Reciprocal(l)', 13,
                   "float[1,1,1] x, int64[1,1] t", "float[1,1] y", {"x": ONES[:1, :1, :1], "t": np.array([[-5]])},
                   (_f(INF, shape=(1, 1)),)), "the sign of a zero"),
    Quirk(RUNTIME, "1.31.1", ("Split",), "parts are numbered and the last ones are empty", "refuses it", "they are smaller",
          when.empty_parts, Evidence("y, z = Split<num_outputs=2>(x)", 18, "float[N] x", "float[A] y, float[B] z",
                                 {"x": _f()}, (_f(), _f()))),
    Quirk(RUNTIME, "1.31.1", ("Bernoulli",), "numbers are drawn", "draws a 1 with the probability 1 - p",
          "with the probability p", when.always,
          Evidence("y = Bernoulli(p)", 15, "float[2] p", "float[2] y", {"p": _f(1, 0)}, (_f(1, 0),))),
    Quirk(RUNTIME, "1.31.1", RECURRENT, "a sequence has no step", "ends in 0", "ends in the initial state", when.no_step, RUN),
    Quirk(RUNTIME, "1.31.1", ("RNN", "LSTM"), "the axis of time is empty", "ends in 0", "ends in the initial state", when.no_time,
          Evidence("_, y = RNN<hidden_size=1>(x, w, w, , , i)", 14,
                   "float[0,1,1] x, float[1,1,1] w, float[1,1,1] i", "float[1,1,1] y",
                   {"x": np.zeros((0, 1, 1), np.float32), "w": _f(1, shape=(1, 1, 1)), "i": _f(0.5, shape=(1, 1, 1))},
                   (_f(0.5, shape=(1, 1, 1)),))),
    Quirk(RUNTIME, "1.31.1", RECURRENT, "ThresholdedRelu has no alpha of its own", "takes 0", "1, as the operator has it",
          when.default_threshold,
          Evidence('_, y = RNN<hidden_size=1, activations=["ThresholdedRelu"]>(x, w, r)', 14,
                   "float[1,1,1] x, float[1,1,1] w, float[1,1,1] r", "float[1,1,1] y",
                   {"x": _f(0.5, shape=(1, 1, 1)), "w": _f(1, shape=(1, 1, 1)), "r": _f(0, shape=(1, 1, 1))},
                   (_f(0, shape=(1, 1, 1)),))),
    Quirk(RUNTIME, "1.31.1", ("Attention",), "a mask holds the lowest number", "takes it for -inf, and a row of it for 0",
          "Softmax of the sum", when.lowest,
          Evidence("y = Attention(q, k, k, m)", 23, "float[1,1,1,2] q, float[1,1,2,2] k, float[1,2] m", "float[1,1,1,2] y",
                   {"q": ONES[None, :1, :1], "k": _f(0, 1, 2, 3, shape=(1, 1, 2, 2)),
                    "m": np.full((1, 2), np.finfo(np.float32).min)}, (_f(1, 2, shape=(1, 1, 1, 2)),))),
    Quirk(RUNTIME, "1.31.1", ("LSTM",), "there is a clip", "does not clip the cell", "what activations are given is clipped",
          lambda call: call.attribute("clip") is not None,
          Evidence("_, y = LSTM<hidden_size=1, clip=0.5>(x, w, r)", 14,
                   "float[3,1,1] x, float[1,4,1] w, float[1,4,1] r", "float[1,1,1] y",
                   {**CELL, "x": np.ones((3, 1, 1), np.float32)}, (_f(0.28764912, shape=(1, 1, 1)),))),
    Quirk(RUNTIME, "1.31.1", RECURRENT, "activations are clipped near 0", "computes Tanh to some 1e-8 alone", "Tanh",
          lambda call: 0 < (call.attribute("clip") or 1) < 1e-2,
          Evidence("_, y = RNN<hidden_size=1, clip=0.00001>(x, w, r)", 14,
                   "float[1,1,1] x, float[1,1,1] w, float[1,1,1] r", "float[1,1,1] y",
                   {"x": _f(1, shape=(1, 1, 1)), "w": _f(1, shape=(1, 1, 1)), "r": _f(0, shape=(1, 1, 1))},
                   (_f(1e-5, shape=(1, 1, 1)),))),
    Quirk(RUNTIME, "1.31.1", ("MatMul",), "a matrix is multiplied by none of many", "refuses it", "there is no product",
          when.other_batches,
          Evidence("y = MatMul(a, x)", 13, "float[2,3] a, float[0,3,4] x", "float[A,B,C] y",
                   {"a": np.ones((2, 3), np.float32), "x": np.zeros((0, 3, 4), np.float32)},
                   (np.zeros((0, 2, 4), np.float32),))),
    Quirk(RUNTIME, "1.31.1", ("QLinearMatMul", "MatMulInteger"), "there is nothing to sum", "yields what nobody wrote", "the zero point",
          lambda call: 0 in (call.shape(0) or ())[-1:],
          Evidence("y = QLinearMatMul(a, s, z, b, s, z, s, p)", 10,
                   "uint8[64,0] a, uint8[0,64] b, float[1] s, uint8[1] z, uint8[1] p", "uint8[64,64] y",
                   {"a": np.zeros((64, 0), np.uint8), "b": np.zeros((0, 64), np.uint8), "s": _f(1),
                    "z": np.zeros(1, np.uint8), "p": np.full(1, 118, np.uint8)}, (np.full((64, 64), 118, np.uint8),))),
    Quirk(RUNTIME, "1.31.1", ("MaxPool", "AveragePool", "LpPool"), "there is no channel", "refuses it", "none comes out",
          lambda call: (call.shape(0) or (1, 1))[1] == 0,
          Evidence("y = MaxPool<kernel_shape=[1]>(x)", 12, "float[1,0,2] x", "float[A,B,C] y",
                   {"x": np.zeros((1, 0, 2), np.float32)}, (np.zeros((1, 0, 2), np.float32),))),
    Quirk(RUNTIME, "1.31.1", ("ReduceMax", "ReduceMin"), "there are no truths", "refuses it", "False and True",
          lambda call: call.given(0) is not None and call.given(0).dtype == bool and 0 in call.given(0).shape,
          Evidence("y = ReduceMax<keepdims=0>(x, a)", 20, "bool[2,0] x, int64[1] a", "bool[A] y",
                   {"x": np.zeros((2, 0), bool), "a": np.array([1])}, (np.zeros(2, bool),))),
    Quirk(RUNTIME, "1.31.1", ("Sub",), "float16 is behind other float16", "leaves out the rounding between them",
          "each value is a float16; `AsWritten` has onnxruntime round it", when.never,
          Evidence("a = Mul(x, s) y = Sub(a, t)", 14, "float16[1] x, float16[1] s, float16[1] t", "float16[1] y", HALVES,
                   (HALVES["x"] * HALVES["s"] - HALVES["t"],))),
)  # fmt: skip

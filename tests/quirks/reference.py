"""What onnx.reference computes otherwise than the text of an operator says, alone or as another engine does."""

from __future__ import annotations

import numpy as np
from ml_dtypes import bfloat16

from tests import conditions as when
from tests.quirks.entry import (
    ALONG_AXIS,
    CELL,
    COUNTED,
    CROPPED,
    CUBE,
    EYES,
    INF,
    NAN,
    ONES,
    RAISED,
    RECURRENT,
    REFERENCE,
    RUN,
    RUNTIME,
    Evidence,
    Quirk,
    f,
    s,
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
                              "float[1,2] x", "float[1,2] y", {"x": f(1, 2, shape=(1, 2))}, (f(-1, -2, shape=(1, 2)),))),
    *(
        Quirk(engine, "1.23.2", ("PRelu",), "the opset is below 7", "takes one slope for each place of the last axis",
              "one slope for each channel", lambda call: call.opset < 7 and call.shape(1) not in ((), (1,)),
              Evidence("y = PRelu(x, s)", 6, "float[1,2,2] x, float[2] s", "float[1,2,2] y",
                       {"x": -ONES[:1], "s": f(1, 2)}, (f(-1, -1, -2, -2, shape=(1, 2, 2)),)))
        for engine in (REFERENCE, RAISED)
    ),
    Quirk(REFERENCE, "1.23.2", ("RoiAlign",), "the opset is below 16", "moves the regions by half a pixel",
          "regions are taken as they are", when.below(16),
          Evidence("y = RoiAlign<output_height=1, output_width=1, sampling_ratio=1>(x, r, b)", 10,
                   "float[1,1,4,4] x, float[1,4] r, int64[1] b", "float[1,1,1,1] y",
                   {"x": f(*range(16), shape=(1, 1, 4, 4)), "r": f(0, 0, 2, 2, shape=(1, 4)), "b": np.array([0])},
                   (f(5, shape=(1, 1, 1, 1)),))),
    *(
        Quirk(engine, seen, ("Gelu",), "numbers of 64 bits go through tanh", "has constants of 32 bits", "the formula, of 64 bits",
              lambda call: call.attribute("approximate") in (b"tanh", "tanh") and getattr(call.given(0), "dtype", np.float64) == np.float64,
              Evidence('y = Gelu<approximate="tanh">(x)', 20, "double[1] x", "double[1] y", {"x": np.ones(1)},
                       (np.array([0.8411919906082768]),)), "elements differ")
        for engine, seen in ((RUNTIME, "1.32.0"), (REFERENCE, "1.23.2"))
    ),
    *(
        Quirk(engine, "1.23.2", ("Selu",), "the opset is below 6 and alpha or gamma is left out", "takes the defaults of opset 6",
              "1.6732 and 1.0507", lambda call: call.opset < 6 and None in map(call.attribute, ("alpha", "gamma")),
              Evidence("y = Selu(x)", 1, "float[1] x", "float[1] y", {"x": f(-1)}, (f(-1.1112876),)))
        for engine in (REFERENCE, RAISED)
    ),
    Quirk(REFERENCE, "1.23.2", ("LpPool",), "the opset is 1 and numbers are of 64 bits", "computes with p in 32 bits", "the norm, of 64 bits",
          lambda call: call.opset < 2 and getattr(call.given(0), "dtype", np.float64) == np.float64,
          Evidence("y = LpPool<kernel_shape=[2], p=3.0>(x)", 1, "double[1,1,2] x", "double[1,1,1] y", {"x": np.ones((1, 1, 2))},
                   (np.full((1, 1, 1), 2 ** (1 / 3)),)), "elements differ"),
    Quirk(REFERENCE, "1.23.2", ("Resize",), "numbers of 64 bits are interpolated by cubes", "weighs them in 32 bits",
          "the formula, of 64 bits", lambda call: call.attribute("mode") in (b"cubic", "cubic")
          and getattr(call.given(0), "dtype", np.float64) == np.float64,
          Evidence('y = Resize<mode="cubic">(x, , , n)', 19, "double[1,1,1,4] x, int64[4] n", "double[A,B,C,D] y",
                   {"x": np.array([0, 1, 0, 0.0]).reshape(1, 1, 1, 4), "n": np.array([1, 1, 1, 3])},
                   (np.array([0.16087962962962962, 0.59375, -0.017361111111111112]).reshape(1, 1, 1, 3),)), "elements differ"),
    Quirk(REFERENCE, "1.23.2", ("GridSample",), "places are numbers of 16 bits", "computes with them in 16 bits",
          "values are interpolated at these places",
          lambda call: call.given(1) is not None and call.given(1).dtype.itemsize == 2,
          Evidence("y = GridSample(x, g)", 22, "float[1,1,3,2] x, bfloat16[1,1,1,2] g", "float[1,1,1,1] y",
                   {"x": f(*range(1, 7), shape=(1, 1, 3, 2)), "g": np.full((1, 1, 1, 2), -0.2001953125, bfloat16)},
                   (f(2.69921875, shape=(1, 1, 1, 1)),)), "elements differ"),
    Quirk(REFERENCE, "1.23.2", ALONG_AXIS, "the second input is broadcast along an axis (opset 6 and below)",
          "broadcasts it along the last axes", "along the axes from the given one on",
          lambda call: call.opset < 7 and {"axis", "broadcast"} <= {a.name for a in call.node.attribute},
          Evidence("y = Add<axis=0, broadcast=1>(x, s)", 6, "float[2,2] x, float[2] s", "float[2,2] y",
                   {"x": 0 * ONES[0], "s": f(1, 2)}, (f(1, 1, 2, 2, shape=(2, 2)),))),
    Quirk(REFERENCE, "1.23.2", ("OneHot",), "an index is negative (opset 10 and below)", "counts it from the end", "no place at all",
          when.negative_index, COUNTED),
    Quirk(REFERENCE, "1.23.2", ("PRelu",), "there is a zero", "multiplies it by the slope", "f(x) = x for x >= 0",
          lambda call: call.given(0) is None or when.holds(call.given(0), lambda x: x == 0),
          Evidence("p = PRelu(x, s) y = Reciprocal(p)", 16, "float[1] x, float[1] s", "float[1] y",
                   {"x": f(0), "s": f(-1)}, (f(INF),)), "the sign of a zero"),
    Quirk(REFERENCE, "1.23.2", ("BatchNormalization",), "the opset is from 9 to 13", "updates the means before it uses them",
          "the means that are given are used where one output is named", lambda call: 9 <= call.opset < 14,
          Evidence("y = BatchNormalization(x, s, b, m, v)", 9,
                   "float[1,1,1] x, float[1] s, float[1] b, float[1] m, float[1] v", "float[1,1,1] y",
                   {"x": f(1, shape=(1, 1, 1)), "s": f(1), "b": f(0), "m": f(0), "v": f(1)},
                   (f(0.999995, shape=(1, 1, 1)),))),
    Quirk(REFERENCE, "1.23.2", ("LpNormalization",), "p is 1", "divides by the sum of the numbers", "by that of their magnitudes",
          lambda call: call.attribute("p", 2) == 1,
          Evidence("y = LpNormalization<p=1>(x)", 22, "float[2] x", "float[2] y", {"x": f(1, -3)}, (f(0.25, -0.75),))),
    Quirk(REFERENCE, "1.23.2", ("Unsqueeze",), "the opset is below 13 and axes are in no order", "counts each by those before it",
          "places of the result", lambda call: call.opset < 13 and list(call.attribute("axes", ())) != sorted(call.attribute("axes", ())),
          Evidence("y = Unsqueeze<axes=[0,2,1]>(x)", 11, "float[2] x", "float[1,1,1,2] y", {"x": f(1, 2)}, (f(1, 2, shape=(1, 1, 1, 2)),))),
    Quirk(REFERENCE, "1.23.2", ("QuantizeLinear",), "the types of data and scale differ", "divides in that of the data", "in that of the scale",
          lambda call: call.opset >= 23 and when.other_types(call),
          Evidence("y = QuantizeLinear(x, s, z)", 23, "float[1] x, bfloat16 s, int16 z", "int16[1] y",
                   {"x": f(-514), "s": np.array(2, bfloat16), "z": np.array(256, np.int16)}, (np.array([0], np.int16),))),
    Quirk(REFERENCE, "1.23.2", ("Unique", "TopK"), "numbers of bfloat16 hold NaN", "leaves them in no order", "they are sorted",
          lambda call: (x := call.given(0)) is not None and x.dtype.name == "bfloat16" and bool(np.isnan(x.astype(np.float32)).any()),
          Evidence("y, i = TopK(x, k)", 24, "bfloat16[4] x, int64[1] k", "bfloat16[2] y",
                   {"x": np.array([2, NAN, 1, 3], bfloat16), "k": np.array([4])}, (np.array([NAN, 3, 2, 1], bfloat16),))),
    *(
        Quirk(engine, seen, ("MaxPool",), "there may be NaN", "loses it", "the maximum, which ReduceMax and Max keep NaN for",
              lambda call: call.given(0) is None or when.nan(0)(call),
              Evidence("y = MaxPool<kernel_shape=[2]>(x)", 12, "float[1,1,3] x", "float[1,1,2] y", {"x": f(2, NAN, 1, shape=(1, 1, 3))},
                       (f(NAN, NAN, shape=(1, 1, 2)),)), "nan")
        for engine, seen in ((RUNTIME, "1.32.0"), (REFERENCE, "1.23.2"))
    ),
    # what onnx.reference leaves out
    Quirk(REFERENCE, "1.23.2", RECURRENT, "sequences have lengths of their own", "runs all of them to the end",
          "each runs as many steps as it has", when.shorter, RUN),
    Quirk(REFERENCE, "1.23.2", RECURRENT, "there is a clip", "does not clip", "what activations are given is clipped",
          lambda call: call.attribute("clip") is not None,
          Evidence("all, y = GRU<hidden_size=1, clip=0.5>(x, w, r)", 14,
                   "float[1,1,1] x, float[1,3,1] w, float[1,3,1] r", "float[1,1,1] y",
                   {name: value[:, :3] for name, value in CELL.items()}, (f(0.17446803, shape=(1, 1, 1)),))),
    Quirk(REFERENCE, "1.23.2", ("StringNormalizer",), "letters have accents", "takes them away", "nothing is said of accents",
          lambda call: call.given(0) is None or not all(text.isascii() for text in map(str, call.given(0).reshape(-1))),
          Evidence("y = StringNormalizer(x)", 10, "string[1] x", "string[1] y", {"x": np.array(["é"], object)},
                   (np.array(["é"], object),))),
    Quirk(REFERENCE, "1.23.2", ("OneHot",), "indices or the depth are not whole numbers", "finds no such place",
          "both are cast to int64", lambda call: not (when.whole(call, 0) and when.whole(call, 1)),
          Evidence("y = OneHot(i, d, v)", 11, "int64[2] i, float d, float[2] v", "float[2,N] y",
                   {"i": np.array([0, -1]), "d": s(2.7), "v": f(0, 1)}, (f(1, 0, 0, 1, shape=(2, 2)),))),
    Quirk(REFERENCE, "1.23.2", ("Resize",), "a region is cropped and scales are given", "keeps the size of the whole",
          "the size is that of the region times the scales", when.cropped_by_scales, CROPPED),
    Quirk(REFERENCE, "1.23.2", ("Resize",), "the nearest element is taken, and there is NaN or an infinity",
          "multiplies the elements beside it by 0", "one element", when.nearest_of_not_finite,
          Evidence("y = Resize(x, , s)", 13, "float[1,1,1,2] x, float[4] s", "float[1,1,1,4] y",
                   {"x": f(1, NAN, shape=(1, 1, 1, 2)), "s": f(1, 1, 1, 2)}, (f(1, 1, NAN, NAN, shape=(1, 1, 1, 4)),)),
          "nan"),
    Quirk(REFERENCE, "1.23.2", ("Attention",), "the products are yielded beside a softcap", "yields the capped ones",
          "the products, as the body of the operator has them",
          lambda call: len(call.node.output) > 3 and call.attribute("softcap", 0) > 0 and not call.attribute("qk_matmul_output_mode", 0),
          Evidence('a, "", "", y = Attention<softcap=2.0>(x, x, x)', 23, "float[1,1,1,1] x", "float[1,1,1,1] y",
                   {"x": f(1, shape=(1, 1, 1, 1))}, (f(1, shape=(1, 1, 1, 1)),))),
    Quirk(REFERENCE, "1.23.2", ("DynamicQuantizeLinear",), "all numbers are 0", "has a scale of 1 / 255",
          "the scale is (max - min) / 255", lambda call: call.given(0) is not None and not call.given(0).any(),
          Evidence("q, y, z = DynamicQuantizeLinear(x)", 11, "float[3] x", "float y", {"x": f(0, 0, 0)}, (s(0),))),
)  # fmt: skip

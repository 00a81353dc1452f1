"""What chooses: a small difference makes another integer."""

import numpy as np

from tests.types.case import case, floats, integers, normal

case(
    "classes_nearly_equal",
    """(float[64,8] x) => (float[64,4] y, int64[64] best)
    { h = MatMul(x, w) y = Relu(h) l = MatMul(x, v) best = ArgMax<axis=-1, keepdims=0>(l) }""",
    {"x": normal(64, 8)},
    weights={
        "w": normal(8, 4, seed=1),
        "v": np.tile(normal(8, 1, seed=2), (1, 4)) * (1 + 1e-4 * normal(8, 4, seed=3)),
    },
    wide=["l", "best"],
)
case(
    "top_of_many",  # close to 1 float16 has 2,000 numbers, and the scores are there
    """(float[1,8] x) => (float[1,4096] y, int64[1,20] best)
    { h = MatMul(x, w) y = Relu(h) l = MatMul(x, v) s = Sigmoid(l) k = Constant<value_ints=[20]>() top, best = TopK(s, k) }""",
    {"x": normal(1, 8)},
    weights={"w": normal(8, 4096, seed=1), "v": normal(8, 3000, seed=2, scale=2)},
    wide=["l", "s", "top"],
    seen=["microsoft/onnxruntime#12152"],
)
case(
    "boxes",  # NonMaxSuppression takes float32 alone
    """(float[1,8] x) => (float[n,4] y, int64[n,3] picked)
    { h = MatMul(x, w) d = Reshape(h, six) b = Add(d, base) l = MatMul(x, u) g = Reshape(l, one) s = Sigmoid(g)
      picked = NonMaxSuppression(b, s, most, iou, least)
      i = Slice(picked, two, three, axis) j = Squeeze(i, axis) f = Squeeze(b, none) y = Gather(f, j) }""",
    {"x": normal(1, 8)},
    weights={
        "w": normal(8, 24, seed=1, scale=0.01),
        "u": normal(8, 6, seed=4),
        "base": np.array(
            [[[0, 0, 1, 1], [0, 0.02, 1, 1], [2, 2, 3, 3], [2, 2.02, 3, 3], [5, 5, 6, 6], [7, 7, 8, 8]]], np.float32
        ),
        "six": integers([1, 6, 4]),
        "one": integers([1, 1, 6]),
        "most": integers([10]),
        "iou": floats([0.5]),
        "least": floats([0.1]),
        "two": integers([2]),
        "axis": integers([1]),
        "three": integers([3]),
        "none": integers([0]),
    },
    wide=["d", "b", "g", "s", "f", "y"],
    seen=["zhiqwang/yolort#107", "microsoft/onnxruntime#12152", "pytorch/vision#3371"],
)
case(
    "index_from_a_grid",  # bilinear sampling by hand: a coordinate is rounded down and is an index
    """(float[1,4] x, float[50] at) => (float[50,4] y)
    { g = Mul(at, many) o = Floor(g) i = Cast<to=7>(o) t = Gather(table, i) r = Sub(g, o) u = Unsqueeze(r, axes)
      h = MatMul(x, w) m = Mul(t, h) y = Mul(m, u) }""",
    {"x": normal(1, 4), "at": np.linspace(0, 0.999, 50, dtype=np.float32)},
    weights={"w": normal(4, 4, seed=1), "table": normal(4000, 4, seed=2), "many": floats(4000), "axes": integers([-1])},
    wide=["g", "o", "r", "u"],
)
case(
    "buckets_of_distances",  # T5: of 129 distances, 19, 38 and 76 are rounded into another bucket
    """(int64 length, float[1,8] x) => (float[n,8] y)
    { n = Range(first, length, first) f = Cast<to=1>(n) d = Div(f, four) l = Log(d) q = Div(l, most) s = Mul(q, twenty)
      i = Cast<to=7>(s) c = Max(i, zero) b = Gather(table, c) h = MatMul(x, w) y = Add(b, h) }""",
    {"length": np.array(130), "x": normal(1, 8)},
    weights={
        "w": normal(8, 8, seed=1, scale=0.1),
        "table": normal(24, 8, seed=2),
        "first": np.array(1),
        "zero": np.array(0),
        "four": floats(4),
        "twenty": floats(20),
        "most": floats(3.4657359),
    },
    wide=["d", "l", "q", "s"],
)

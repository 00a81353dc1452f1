"""Layers that compute: elementwise, reductions, normalization, products, windows."""

import itertools

import numpy as np
import pytest

pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op
from openvino import opset15

from tests.passes.openvino.networks import BY, FLAGS, FLOATS_BY, HALVES, SCALARS, SIGNED, C, X, case, drawn, ints, made

# --- elementwise
case("Mod of integers", op.mod, SIGNED, BY)
case("FloorMod of integers", op.floor_mod, SIGNED, BY)
case("Divide of integers", op.divide, SIGNED, BY)
case("Mod", op.mod, SCALARS[:5], FLOATS_BY[:5])
case("FloorMod", op.floor_mod, SCALARS[:5], FLOATS_BY[:5])
case("SquaredDifference", op.squared_difference, SCALARS, FLOATS_BY)
for mode in ("half_to_even", "half_away_from_zero"):
    case(f"Round {mode}", lambda x, mode=mode: op.round(x, mode), HALVES)
case("Clamp", lambda x: op.clamp(x, -2.5, 3.2), SCALARS)
case("Clamp of integers", lambda x: op.clamp(x, -2.5, 3.2), SIGNED)
case("HSwish", op.hswish, X)
case("HSigmoid", op.hsigmoid, X)
case("Swish", lambda x: op.swish(x, C(np.float32(1.7))), X)
case("HardSigmoid", lambda x: op.hard_sigmoid(x, C(np.float32(0.3)), C(np.float32(0.4))), X)
case("Selu", lambda x: op.selu(x, C(np.float32(1.6)), C(np.float32(1.05))), X)
case("Elu", lambda x: op.elu(x, 0.7), X)
for shape in ([3], [5], [1], [3, 1, 1]):
    case(f"PReLU {shape}", lambda x, shape=shape: op.prelu(x, C(drawn(*shape))), X)
case("PReLU of a square", lambda x: op.prelu(x, C(drawn(3))), drawn(2, 3, 3))
for mode in ("erf", "tanh"):
    case(f"Gelu {mode}", lambda x, mode=mode: op.gelu(x, mode), X)
for name in ("softsign", "mish", "softplus", "erf", "is_nan", "is_inf", "is_finite", "sign"):
    case(name, getattr(op, name), X)
case("Select", op.select, FLAGS, drawn(2, 3, 4), drawn(4))
case("Convert", lambda x: op.convert(x, "i32"), np.float32([1.9, -1.9, 0]))
case("Convert to boolean", lambda x: op.convert(x, "boolean"), np.float32([0.3, -1.9, 0]))
for low, levels in ((np.float32(-1), 256), (-np.abs(drawn(1, 3, 1, 1)) - 0.1, 16)):
    case(
        f"FakeQuantize {levels}",
        lambda x, low=low, levels=levels: op.fake_quantize(
            x, C(low), C(-low), C(np.float32(-2)), C(np.float32(3)), levels
        ),
        X,
    )

for kind, shifted in itertools.product(("f8e4m3", "f8e5m2"), (False, True)):
    case(
        f"FakeConvert {kind} {shifted}",
        lambda x, kind=kind, shifted=shifted: made(
            "opset13", "FakeConvert", [x, *map(C, np.float32([[1.7], [0.3]])[: 1 + shifted])], destination_type=kind
        ),
        X * 50,
    )

# --- reductions
REDUCE = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l1", "reduce_l2")
for name, keep in itertools.product(REDUCE, (True, False)):
    case(f"{name} {keep}", lambda x, name=name, keep=keep: getattr(op, name)(x, ints(1, -1), keep), X)
case("reduce_sum scalar axis", lambda x: op.reduce_sum(x, C(np.array(2)), False), X)
case("reduce_sum all", lambda x: op.reduce_sum(x, ints(0, 1, 2, 3), False), X)
case("reduce_logical_and", lambda x: op.reduce_logical_and(x, ints(1), False), FLAGS)
case("reduce_logical_or", lambda x: op.reduce_logical_or(x, ints(1), True), FLAGS)
for mode in ("add", "max"):
    case(
        f"NormalizeL2 {mode}",
        lambda x, mode=mode: made("opset1", "NormalizeL2", [x, ints(1, 3)], eps=1e-2, eps_mode=mode),
        X,
    )
for exclusive, backward in itertools.product((False, True), repeat=2):
    case(f"CumSum {exclusive} {backward}", lambda x, a=exclusive, b=backward: op.cum_sum(x, C(np.array(1)), a, b), X)

# --- normalization
for where, scaled in itertools.product(("inside_sqrt", "outside_sqrt"), (True, False)):
    case(f"MVN-6 {where} {scaled}", lambda x, a=where, b=scaled: op.mvn(x, ints(2, 3), b, 0.1, a), X)
for across in (True, False):
    case(
        f"MVN-2 {across}",
        lambda x, a=across: made("opset2", "MVN", [x], eps=0.1, across_channels=a, normalize_variance=True),
        X,
    )
THREE = [C(drawn(3, seed=n)) for n in range(3)]
case("BatchNorm-5", lambda x: op.batch_norm_inference(x, *THREE, C(np.abs(drawn(3))), 1e-3), X)
case(
    "BatchNorm-1",
    lambda x: made("opset1", "BatchNormInference", [*THREE[:2], x, THREE[2], C(np.abs(drawn(3)))], epsilon=1e-3),
    X,
)
case(
    "GroupNormalization", lambda x: op.group_normalization(x, C(drawn(6)), C(drawn(6, seed=1)), 3, 1e-3), drawn(2, 6, 4)
)
case(
    "GroupNormalization of nothing",
    lambda x: op.group_normalization(x, C(drawn(4)), C(drawn(4)), 2, 0.1),
    drawn(0, 4, 3),
)
for dims in ((3, 7), (3, 7, 2), (1, 7, 2, 2, 3)):
    case(f"LRN of {len(dims)} axes", lambda x: op.lrn(x, ints(1), 0.5, 0.7, 2.0, 3), drawn(*dims))
case("Eye of a batch", lambda n: op.eye(n, C(np.array(4)), C(np.array(-1)), "i32", ints(2, 3)), np.array(3))
case("LRN", lambda x: op.lrn(x, ints(1), 0.5, 0.7, 2.0, 3), drawn(2, 7, 4, 5))
QUERY = drawn(1, 2, 4, 8), drawn(1, 2, 6, 8), drawn(1, 2, 6, 8, seed=1)
MASK = np.tri(4, 6, 2, dtype=bool)[None, None]
case("attention", op.scaled_dot_product_attention, *QUERY)
case("attention causal", lambda q, k, v: op.scaled_dot_product_attention(q, k, v, causal=True), *QUERY)
case("attention mask", op.scaled_dot_product_attention, *QUERY, MASK)
case(
    "attention scale",
    lambda q, k, v, m: op.scaled_dot_product_attention(q, k, v, m, C(np.float32(0.3))),
    *QUERY,
    drawn(1, 1, 4, 6),
)

# --- products, convolutions, pools
for a, b in itertools.product((False, True), repeat=2):
    sides = drawn(2, 4, 3) if a else drawn(2, 3, 4), drawn(5, 4) if b else drawn(4, 5)
    case(f"MatMul {a} {b}", lambda x, y, a=a, b=b: op.matmul(x, y, a, b), *sides)
case("MatMul of a vector", lambda x, y: op.matmul(x, y, True, False), drawn(4), drawn(4, 5))
IMAGE, SMALL = drawn(1, 4, 9, 8), drawn(1, 4, 5, 5)
for auto in ("explicit", "same_upper", "same_lower", "valid"):
    case(
        f"Convolution {auto}",
        lambda x, m=auto: op.convolution(x, C(drawn(6, 4, 3, 3)), [2, 2], [1, 0], [0, 1], [1, 1], m),
        IMAGE,
    )
    case(
        f"GroupConvolution {auto}",
        lambda x, m=auto: op.group_convolution(x, C(drawn(2, 3, 2, 3, 3)), [2, 1], [1, 0], [0, 1], [1, 2], m),
        IMAGE,
    )
    case(
        f"MaxPool {auto}",
        lambda x, m=auto: op.max_pool(x, [2, 2], [1, 1], [1, 0], [0, 1], [3, 3], "floor", m).output(0),
        IMAGE,
    )
    for exclude in (True, False):
        case(
            f"AvgPool {auto} {exclude}",
            lambda x, m=auto, e=exclude: op.avg_pool(x, [2, 2], [1, 0], [0, 1], [3, 3], e, "floor", m),
            IMAGE,
        )
    case(
        f"ConvolutionBackpropData to a shape {auto}",
        lambda x, m=auto: op.convolution_backprop_data(
            x, C(drawn(4, 3, 3, 3)), [2, 2], ints(10, 9), [1, 0], [0, 1], [1, 1], m
        ),
        SMALL,
    )
case(
    "ConvolutionBackpropData",
    lambda x: op.convolution_backprop_data(
        x, C(drawn(4, 3, 3, 3)), [2, 2], None, [1, 0], [0, 1], [1, 1], "explicit", [1, 1]
    ),
    SMALL,
)
case(
    "GroupConvolutionBackpropData",
    lambda x: op.group_convolution_backprop_data(x, C(drawn(2, 2, 3, 3, 3)), [2, 2], None, [1, 0], [0, 1], [1, 1]),
    SMALL,
)
WINDOWS = ((3, 2, 0), (2, 2, 0), (3, 2, 1))  # kernel, stride, pad
for rounding, (k, s, p) in itertools.product(("ceil", "ceil_torch"), WINDOWS):
    case(
        f"MaxPool {rounding} {k} {s} {p}",
        lambda x, r=rounding, k=k, s=s, p=p: opset15.max_pool(x, [s] * 2, [1, 1], [p] * 2, [p] * 2, [k] * 2, r).output(
            0
        ),
        IMAGE,
    )
    case(
        f"AvgPool {rounding} {k} {s} {p}",
        lambda x, r=rounding, k=k, s=s, p=p: opset15.avg_pool(x, [s] * 2, [p] * 2, [p] * 2, [k] * 2, True, r),
        IMAGE,
    )
case(
    "MaxPool behind the data",
    lambda x: opset15.max_pool(x, [3, 3], [1, 1], [1, 1], [1, 1], [2, 2], "ceil_torch").output(0),
    IMAGE,
)
case(
    "places of MaxPool",
    lambda x: op.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], "floor", "explicit", "i32", 0).output(1),
    IMAGE,
)
case("AdaptiveAvgPool", lambda x: op.adaptive_avg_pool(x, ints(3, 2)), drawn(1, 2, 6, 4))
case(
    "DeformableConvolution",
    lambda x, o: op.deformable_convolution(
        x, o, C(drawn(3, 2, 3, 3)), [1, 1], [0, 0], [0, 0], [1, 1], bilinear_interpolation_pad=True
    ),
    drawn(1, 2, 5, 5),
    drawn(1, 18, 3, 3),
)
ROIS = np.float32([[0.3, 0.6, 6.2, 5.1], [1, 1, 3, 3]])
for mode in ("asymmetric", "half_pixel_for_nn"):
    case(
        f"ROIAlign {mode}",
        lambda x, r, m=mode: op.roi_align(x, r, ints(0, 0, dtype=np.int32), 2, 3, 2, 1.0, "avg", m),
        drawn(1, 2, 8, 8),
        ROIS,
    )
BOXES = np.random.default_rng(0).uniform(0, 1, (1, 6, 4)).astype(np.float32) + np.float32([0, 0, 1, 1])
for k, falling in itertools.product(range(3), (False, True)):
    case(
        f"NonMaxSuppression {k} {falling}",
        lambda b, s, k=k, f=falling: op.non_max_suppression(
            b, s, C(np.array(3)), C(np.float32(0.5)), C(np.float32(0.2)), sort_result_descending=f
        ).output(k),
        BOXES,
        np.abs(drawn(1, 2, 6)),
    )

TABLE, INDICES, WEIGHTS = drawn(5, 3), np.array([0, 2, 4, 3], np.int32), drawn(4)
OFFSETS, PLACE = ints(0, 2, 2, dtype=np.int32), C(np.array(1, np.int32))
case(
    "EmbeddingBagOffsetsSum",
    lambda t, i, w: op.embedding_bag_offsets_sum(t, i, OFFSETS, PLACE, w),
    TABLE,
    INDICES,
    WEIGHTS,
)
case(
    "EmbeddingBagOffsetsSum without defaults", lambda t, i: op.embedding_bag_offsets_sum(t, i, OFFSETS), TABLE, INDICES
)
case(
    "EmbeddingBagOffsets mean",
    lambda t, i: opset15.embedding_bag_offsets(t, i, OFFSETS, PLACE, reduction="mean"),
    TABLE,
    INDICES,
)
case("EmbeddingBagPackedSum", op.embedding_bag_packed_sum, TABLE, INDICES.reshape(2, 2), WEIGHTS.reshape(2, 2))
case(
    "EmbeddingBagPacked mean",
    lambda t, i: opset15.embedding_bag_packed(t, i, reduction="mean"),
    TABLE,
    INDICES.reshape(2, 2),
)
case(
    "EmbeddingSegmentsSum",
    lambda t, i, d, w: op.embedding_segments_sum(
        t, i, ints(0, 0, 2, 2, dtype=np.int32), C(np.array(4, np.int32)), d, w
    ),
    TABLE,
    INDICES,
    np.array(1, np.int32),
    WEIGHTS,
)
case(
    "ROIPooling",
    lambda x, r: op.roi_pooling(x, r, [2, 3], 0.5, "max"),
    drawn(2, 3, 6, 6),
    np.float32([[1, 0, 0, 5, 7], [0, 2, 2, 8, 4]]),
)

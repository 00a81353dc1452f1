"""Each layer of OpenVINO IR against OpenVINO itself: the network that it writes runs as the ONNX model made of it."""

import itertools
import re
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import onnx
import pytest
from opshift.passes.errors import Refused
from opshift.passes.openvino.idle import IDLE
from opshift.passes.openvino.layer import MAPPINGS

from opshift.files import openvino_ir
from opshift.verification.compare import compare
from opshift.verification.engines import OnnxRuntime

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op  # noqa: E402
from openvino import opset15  # noqa: E402
from openvino.utils.node_factory import NodeFactory  # noqa: E402

C = op.constant
CORE = openvino.Core()  # which finds its devices once
AS_WRITTEN = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
CASES = {}
TOGETHER = 20


def drawn(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def ints(*values, dtype=np.int64):
    return C(np.array(values, dtype))


def made(version, kind, inputs, **attributes):
    return NodeFactory(version).create(kind, inputs, attributes)


def case(name, build, *feeds):
    assert name not in CASES
    CASES[name] = build, feeds


X, SCALARS = drawn(2, 3, 4, 5), np.float32([-7.5, 7.5, -7.5, 8, 0, np.inf, -0.0])
SIGNED, BY = np.array([-7, 7, -7, 8, 0], np.int32), np.array([2, -2, -2, 3, 5], np.int32)
FLOATS_BY = np.float32([2, -2, -2, 3, 5, 2, 2])
HALVES = np.float32([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 0.49999997, np.inf, -np.inf, 8388609])
FLAGS = np.random.default_rng(0).integers(0, 2, (2, 3, 4)).astype(bool)

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

# --- layout
case("Reshape special_zero", lambda x: op.reshape(x, ints(0, -1, 5), True), X)
case("Transpose without order", lambda x: op.transpose(x, C(np.array([], np.int64))), X)
for axes in ([-1], []):
    case(f"Squeeze {axes}", lambda x, axes=axes: op.squeeze(x, C(np.array(axes, np.int64))), drawn(1, 3, 1))
case("VariadicSplit", lambda x: op.variadic_split(x, C(np.array(3)), ints(1, -1, 2)).output(1), X)
case("Split", lambda x: op.split(x, C(np.array(2)), 2).output(1), X)
case("Broadcast explicit", lambda x: op.broadcast(x, ints(2, 3, 4), ints(1), "explicit"), drawn(3))
case("Tile more", lambda x: op.tile(x, ints(2, 2)), drawn(3))
case("Tile less", lambda x: op.tile(x, ints(2)), drawn(2, 3))
for mode in ("constant", "edge", "reflect", "symmetric"):
    fill = C(np.float32(7)) if mode == "constant" else None
    case(f"Pad {mode}", lambda x, m=mode, f=fill: op.pad(x, ints(1, 2), ints(2, 1), m, f), drawn(4, 5))
case("Pad negative", lambda x: op.pad(x, ints(-1, 2), ints(2, -1), "constant", C(np.float32(7))), drawn(4, 5))
for mode in ("blocks_first", "depth_first"):
    case(f"DepthToSpace {mode}", lambda x, m=mode: op.depth_to_space(x, m, 2), drawn(1, 8, 2, 3))
    case(f"SpaceToDepth {mode}", lambda x, m=mode: op.space_to_depth(x, m, 2), drawn(1, 2, 4, 6))
case("ShuffleChannels", lambda x: op.shuffle_channels(x, 1, 3), drawn(1, 6, 2, 3))
case(
    "SpaceToBatch",
    lambda x: op.space_to_batch(x, ints(1, 2, 3, 1), ints(0, 1, 0, 0), ints(0, 1, 0, 0)),
    drawn(2, 4, 6, 3),
)
case(
    "BatchToSpace",
    lambda x: op.batch_to_space(x, ints(1, 2, 3, 1), ints(0, 1, 0, 0), ints(0, 0, 1, 0)),
    drawn(12, 3, 2, 3),
)
for dims, axes in (((3, 4, 5), (0, 1)), ((5, 4, 3), (2, 1))):
    case(
        f"ReverseSequence {axes}",
        lambda x, a=axes: op.reverse_sequence(x, ints(1, 2, 4, dtype=np.int32), *a),
        drawn(*dims),
    )
case("Reverse", lambda x: made("opset1", "Reverse", [x, ints(0, 2)], mode="index"), drawn(3, 4, 5))
case(
    "Reverse by mask",
    lambda x: made("opset1", "Reverse", [x, C(np.array([True, False, True]))], mode="mask"),
    drawn(3, 4, 5),
)
case("Roll", lambda x: op.roll(x, ints(1, -2), ints(0, 2)), drawn(3, 4, 5))

# --- indexing
case("Gather", lambda x: op.gather(x, C(np.array([[0, -1]])), C(np.array(1))), drawn(3, 4))
for dims, places, axis, batch in (
    ((2, 3, 4), [[0, 1], [2, -1]], 1, 1),
    ((2, 3, 4, 5), [[0, 1, 1], [2, -1, 0]], 2, 1),
    ((2, 3, 4, 5), [[0, 1, 1], [2, -1, 0]], 3, -1),
):
    case(
        f"Gather batch {axis} {batch}",
        lambda x, p=places, a=axis, b=batch: op.gather(x, C(np.array(p)), C(np.array(a)), b),
        drawn(*dims),
    )
case("GatherND", lambda x: op.gather_nd(x, C(np.array([[0, 1], [2, 3]])), 1), drawn(2, 3, 4))
case("GatherElements", lambda x: op.gather_elements(x, C(np.array([[0, 2, 1], [0, 0, 0]])), 1), drawn(2, 3))
for axis, places, updates in ((1, [2, 0], (2, 2, 4)), (2, [[2, 0]], (2, 3, 1, 2)), (0, [1, 0], (2, 3, 4))):
    case(
        f"ScatterUpdate {axis}",
        lambda x, a=axis, p=places, u=updates: op.scatter_update(x, C(np.array(p)), C(drawn(*u)), C(np.array(a))),
        drawn(2, 3, 4),
    )
for reduction in ("none", "sum", "prod", "min", "max"):
    case(
        f"ScatterElementsUpdate {reduction}",
        lambda x, r=reduction: op.scatter_elements_update(
            x, C(np.array([[0, 0, 1]])), C(drawn(1, 3)), C(np.array(0)), r
        ),
        drawn(3, 3),
    )
    case(
        f"ScatterNDUpdate {reduction}",
        lambda x, r=reduction: opset15.scatter_nd_update(x, C(np.array([[1], [2]])), C(drawn(2)), reduction=r),
        drawn(4),
    )
case("Slice", lambda x: op.slice(x, ints(-1, 1), ints(0, 100), ints(-2, 2), ints(1, 0)), drawn(6, 7))
for name, (begin, end, strides, *masks) in {
    "plain": ([1, 2], [3, 4], [1, 1], [0, 0], [0, 0], [], [], []),
    "masks": ([1, 2], [3, 4], [1, 1], [1, 0], [0, 1], [], [], []),
    "backward": ([-1, 4], [0, 1], [-1, -2], [0, 0], [0, 0], [], [], []),
    "all backward": ([1, 2], [3, 4], [-1, -2], [1, 1], [1, 1], [], [], []),
    "shrink": ([1, 2], [3, 4], [1, 1], [0, 0], [0, 0], [], [1, 0], []),
    "shrink the last": ([-1, 2], [3, 4], [1, 1], [0, 0], [0, 0], [], [1, 0], []),
    "new axis": ([1, 2], [3, 4], [1, 1], [0, 0], [0, 0], [1, 0], [], []),
    "ellipsis": ([0, 2], [0, 4], [1, 1], [0, 0], [0, 0], [], [], [1, 0]),
    "all": ([0, 0, 1, 2], [0, 0, 3, 3], [1] * 4, [0] * 4, [0] * 4, [0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]),
    "all in another order": (
        [0, 1, 0, 2],
        [0, 2, 0, 5],
        [1] * 4,
        [0] * 4,
        [0] * 4,
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
    ),
}.items():
    case(
        f"StridedSlice {name}",
        lambda x, b=begin, e=end, s=strides, m=masks: op.strided_slice(x, ints(*b), ints(*e), ints(*s), *m),
        drawn(4, 5, 6),
    )
case(
    "StridedSlice at run time",
    lambda x, b, e: op.strided_slice(x, b, e, ints(1, 1), [0, 0], [0, 0], [], [1, 0], []),
    drawn(4, 5, 6),
    np.array([-1, 2]),
    np.array([4, -1]),
)
case(
    "StridedSlice with steps of the run time",
    lambda x, e, s: op.strided_slice(x, ints(-1, 0), e, s, [0, 1], [0, 1]),
    drawn(4, 5),
    np.array([2**31 - 1, 0]),
    np.array([-1, -2]),
)
case(
    "Slice backwards by the run time",
    lambda x, e, s: op.slice(x, ints(3), e, s, ints(0)),
    drawn(5),
    np.array([2**31 - 1]),
    np.array([-1]),
)
case("Roll of axes of the run time", op.roll, drawn(3, 4, 5), np.array([-5, 3, 1]), np.array([0, -1, 2]))
for order in ([2, 0, 1], [0, 1, 2]):
    case(f"Transpose by the run time {order}", op.transpose, drawn(2, 3, 4), np.array(order))
case("Transpose of nothing by the run time", op.transpose, drawn(2, 0, 4), np.array([1, 2, 0]))
for axis in (1, -1):
    case(f"Split by the run time {axis}", lambda x, a: op.split(x, a, 2).output(1), drawn(2, 4, 6), np.array(axis))
    for lengths in ([1, 3], [3, -1]):
        case(
            f"VariadicSplit by the run time {axis} {lengths}",
            lambda x, a, n=lengths: op.variadic_split(x, a, ints(*n)).output(1),
            drawn(2, 4, 4),
            np.array(axis),
        )
case("Roll by the run time", lambda x, s: op.roll(x, s, ints(0, -1)), drawn(3, 4), np.array([-5, 3]))
case(
    "SpaceToBatch of the run time",
    lambda x, b, p: op.space_to_batch(x, b, p, ints(0, 0)),
    drawn(1, 5),
    np.array([1, 3]),
    np.array([0, 1]),
)
for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    case(f"{name} of booleans", getattr(op, name), FLAGS, ~FLAGS[0])
case(
    "Range", lambda a, b: op.range(a, b, C(np.array(2, np.int32)), "f32"), np.array(1, np.int32), np.array(9, np.int32)
)
for sort, mode, k in itertools.product(("value", "index"), ("max", "min"), (0, 1)):
    case(
        f"TopK {sort} {mode} {k}",
        lambda x, s=sort, m=mode, k=k: op.topk(x, C(np.array(3)), 1, m, s, "i32").output(k),
        drawn(3, 7),
    )
case("NonZero", lambda x: op.non_zero(x, "i32"), np.float32([[1, 0], [0, 3]]))
case(
    "OneHot",
    lambda x: op.one_hot(x, C(np.array(4)), C(np.float32(2)), C(np.float32(-1)), -1),
    np.array([0, 2, -1, 5], np.int32),
)
case("Eye", lambda x: op.add(x, op.eye(C(np.array(3)), C(np.array(4)), C(np.array(1)), "f32")), drawn(3, 4))
case("Einsum", lambda x, y: op.einsum([x, y], "ij,jk->ik"), drawn(2, 3), drawn(3, 4))

# --- recurrent
for direction, k in itertools.product(("forward", "reverse", "bidirectional"), (0, 1)):
    count = 2 if direction == "bidirectional" else 1
    state, lengths = C(drawn(2, count, 3)), ints(4, 3, dtype=np.int32)

    fours, threes, ones = (
        (C(drawn(count, gates * 3, 5)), C(drawn(count, gates * 3, 3)), C(drawn(count, gates * 3)))
        for gates in (4, 3, 1)
    )

    def lstm(x, k=k, s=state, n=lengths, w=fours, d=direction):
        return op.lstm_sequence(x, s, s, n, *w, 3, d).output(k)

    def gru(x, k=k, s=state, n=lengths, w=threes, d=direction):
        return op.gru_sequence(x, s, n, *w, 3, d).output(k)

    def rnn(x, k=k, s=state, n=lengths, w=ones, d=direction):
        return op.rnn_sequence(x, s, n, *w, 3, d).output(k)

    for sequence in (lstm, gru, rnn):
        case(f"{sequence.__name__} {direction} {k}", sequence, drawn(2, 4, 5))
case(
    "GRUSequence linear_before_reset",
    lambda x: op.gru_sequence(
        x,
        C(drawn(2, 1, 3)),
        ints(4, 3, dtype=np.int32),
        C(drawn(1, 9, 5)),
        C(drawn(1, 9, 3)),
        C(drawn(1, 12)),
        3,
        "forward",
        linear_before_reset=True,
    ).output(0),
    drawn(2, 4, 5),
)
case(
    "LSTMCell",
    lambda x: op.lstm_cell(
        x, C(drawn(2, 3)), C(drawn(2, 3, seed=1)), C(drawn(12, 5)), C(drawn(12, 3)), C(drawn(12)), 3
    ).output(1),
    drawn(2, 5),
)
case(
    "LSTMCell-1",
    lambda x: made(
        "opset1",
        "LSTMCell",
        [x, *(C(drawn(*s)) for s in ((2, 3), (2, 3), (12, 5), (12, 3), (12,)))],
        hidden_size=3,
        weights_format="fico",
    ).output(0),
    drawn(2, 5),
)
case("GRUCell", lambda x: op.gru_cell(x, C(drawn(2, 3)), C(drawn(9, 5)), C(drawn(9, 3)), C(drawn(9)), 3), drawn(2, 5))
case(
    "RNNCell",
    lambda x: op.rnn_cell(x, C(drawn(2, 3)), C(drawn(3, 5)), C(drawn(3, 3)), C(drawn(3)), 3, ["relu"], [], []),
    drawn(2, 5),
)

# --- resampling and spectra
SAMPLED = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
for mode, where, sizes in itertools.product(("nearest", "linear", "linear_onnx", "cubic"), SAMPLED, ((7, 9), (2, 3))):
    case(
        f"Interpolate {mode} {where} {sizes}",
        lambda x, m=mode, w=where, s=sizes: op.interpolate(
            x, ints(*s), m, "sizes", coordinate_transformation_mode=w, axes=ints(2, 3)
        ),
        drawn(1, 2, 4, 5),
    )
for mode in ("round_prefer_ceil", "floor", "ceil"):
    case(
        f"Interpolate {mode}",
        lambda x, m=mode: op.interpolate(
            x, C(np.float32([1.7, 0.6])), "nearest", "scales", nearest_mode=m, axes=ints(2, 3)
        ),
        drawn(1, 2, 4, 5),
    )
GRID = np.random.default_rng(0).uniform(-1.3, 1.3, (1, 3, 4, 2)).astype(np.float32)
for mode, outside, corners in itertools.product(
    ("bilinear", "bicubic", "nearest"), ("zeros", "border", "reflection"), (True, False)
):
    case(
        f"GridSample {mode} {outside} {corners}",
        lambda x, g, m=mode, o=outside, c=corners: op.grid_sample(
            x, g, {"align_corners": c, "mode": m, "padding_mode": o}
        ),
        drawn(1, 2, 5, 6),
        GRID,
    )
for name in ("dft", "idft"):
    case(name, lambda x, n=name: getattr(op, n)(x, ints(-1, 0)), drawn(2, 4, 5, 2))
    case(f"{name} of a size", lambda x, n=name: getattr(op, n)(x, ints(1), ints(6)), drawn(2, 4, 5, 2))
case("rdft", lambda x: op.rdft(x, ints(1, 2)), drawn(2, 4, 5))


def network(build, feeds, folder):
    inputs = [op.parameter(list(value.shape), value.dtype) for value in feeds]
    path = folder / "net.xml"
    openvino.serialize(openvino.Model([op.result(build(*inputs))], inputs, "net"), path)
    return path


@cache
def computed(names):
    """What OpenVINO computes of some of the cases, in one network: it compiles few layers no faster than many."""
    inputs = [[op.parameter(list(value.shape), value.dtype) for value in CASES[name][1]] for name in names]
    ends = [op.result(CASES[name][0](*held)) for name, held in zip(names, inputs, strict=True)]
    made = CORE.compile_model(openvino.Model(ends, list(chain(*inputs)), "nets"), "CPU", AS_WRITTEN)
    found = made(list(chain.from_iterable(CASES[name][1] for name in names)))
    return {name: np.array(found[index]) for index, name in enumerate(names)}


@pytest.mark.parametrize("name", CASES)
def test_a_layer_computes_what_openvino_computes(name, tmp_path):
    build, feeds = CASES[name]
    path = network(build, feeds, tmp_path)
    names = tuple(CASES)
    part = names.index(name) // TOGETHER * TOGETHER
    expected = computed(names[part : part + TOGETHER])[name]
    model = openvino_ir.read(path).model
    given = dict(zip((value.name for value in model.graph.input), feeds, strict=True))
    (actual,) = OnnxRuntime(model, folder=str(tmp_path)).run(given)
    assert not compare(expected, actual, "close").why


def of_any_size(path):
    """The same network, whose inputs may have other sizes than their values have."""
    core = CORE
    model = core.read_model(path)
    model.reshape({port: openvino.PartialShape([-1] * len(port.get_partial_shape())) for port in model.inputs})
    openvino.serialize(model, path.with_name("any.xml"))
    return path.with_name("any.xml")


SIZED = {
    "DepthToSpace of 3 axes": (lambda x: op.depth_to_space(x, "depth_first", 2), drawn(1, 8, 3)),
    "DepthToSpace of 5 axes": (lambda x: op.depth_to_space(x, "blocks_first", 2), drawn(1, 8, 1, 2, 3)),
    "SpaceToDepth of 5 axes": (lambda x: op.space_to_depth(x, "blocks_first", 2), drawn(1, 2, 2, 4, 2)),
    "SpaceToDepth of 3 axes": (lambda x: op.space_to_depth(x, "depth_first", 2), drawn(1, 2, 4)),
    "ShuffleChannels": (lambda x: op.shuffle_channels(x, -3, 3), drawn(1, 6, 2, 3)),
    "SpaceToBatch": (
        lambda x: op.space_to_batch(x, ints(1, 2, 3, 1), ints(0, 1, 0, 0), ints(0, 1, 0, 0)),
        drawn(2, 4, 6, 3),
    ),
    "BatchToSpace": (
        lambda x: op.batch_to_space(x, ints(1, 2, 3, 1), ints(0, 1, 0, 0), ints(0, 0, 1, 0)),
        drawn(12, 3, 2, 3),
    ),
    "Roll": (lambda x: op.roll(x, ints(1, -7, 1), ints(0, 2, -1)), drawn(3, 4, 5)),
    "Slice backwards to the largest number": (
        lambda x: op.slice(x, ints(2), ints(2**63 - 1), ints(-1), ints(0)),
        drawn(4),
    ),
    "StridedSlice backwards to the largest number": (
        lambda x: op.strided_slice(x, ints(2), ints(2**31 - 1), ints(-1), [0], [0]),
        drawn(4),
    ),
    "Convolution same with gaps": (
        lambda x: op.convolution(x, C(drawn(2, 4, 2, 2)), [1, 3], [0, 0], [0, 0], [3, 1], "same_lower"),
        IMAGE,
    ),
    "ConvolutionBackpropData same": (
        lambda x: op.convolution_backprop_data(
            x, C(drawn(4, 3, 3, 3)), [2, 2], None, [1, 0], [0, 1], [1, 1], "same_upper"
        ),
        SMALL,
    ),
    "AvgPool ceil_torch": (lambda x: opset15.avg_pool(x, [2, 2], [0, 0], [1, 1], [3, 3], True, "ceil_torch"), IMAGE),
    "AdaptiveAvgPool": (lambda x: op.adaptive_avg_pool(x, ints(4, 3)), IMAGE),
    "AdaptiveMaxPool": (lambda x: op.adaptive_max_pool(x, ints(2, 5), "i32").output(0), IMAGE),
    "places of MaxPool from an axis": (
        lambda x: op.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], "floor", "explicit", "i64", 2).output(1),
        IMAGE,
    ),
    "GRN": (lambda x: op.grn(x, 0.5), X),
    "ScatterNDUpdate sub": (
        lambda x: opset15.scatter_nd_update(x, C(np.array([[1], [2], [1]])), C(drawn(3)), reduction="sub"),
        drawn(4),
    ),
    "OneHot of a scalar": (
        lambda x: op.one_hot(x, C(np.array(4)), C(np.float32(2)), C(np.float32(-1)), -1),
        np.array(2, np.int32),
    ),
    "sum of all": (lambda x: op.reduce_sum(x, ints(0, 1), False), drawn(2, 3)),
    "L1 of all": (lambda x: op.reduce_l1(x, ints(0, 1), False), drawn(2, 3)),
    "scalar": (lambda x: op.add(x, C(np.float32(1))), np.float32(2)),
}


@pytest.mark.parametrize("name", SIZED)
def test_sizes_may_be_known_or_not(name, tmp_path):
    build, feed = SIZED[name]
    path = network(build, [np.asarray(feed)], tmp_path)
    expected = CORE.compile_model(path, "CPU", AS_WRITTEN)([np.asarray(feed)])[0]
    for source in (path, of_any_size(path)):
        model = openvino_ir.read(source).model
        onnx.checker.check_model(model, full_check=True)
        (actual,) = OnnxRuntime(model, folder=str(tmp_path)).run({model.graph.input[0].name: np.asarray(feed)})
        assert not compare(expected, actual, "close").why


def test_random_numbers_lie_between_the_bounds(tmp_path):
    path = network(
        lambda x: op.random_uniform(x, C(np.array(-2)), C(np.array(3)), "i64"), [np.array([40, 5])], tmp_path
    )
    read = openvino_ir.read(path)
    (made,) = OnnxRuntime(read.model).run({read.model.graph.input[0].name: np.array([40, 5])})
    assert made.shape == (40, 5)
    assert set(made.reshape(-1)) == {-2, -1, 0, 1, 2}
    assert [change.grade for change in read.changes] == ["close"]


REFUSED = {
    "its axis leaves a window behind the data": (lambda x: opset15.max_pool(x, [3, 3], [1, 1], [1, 1], [1, 1], [2, 2], "ceil"), "a window behind the data"),
    "a window of padding": (lambda x: op.max_pool(x, [1, 1], [1, 1], [2, 0], [0, 0], [2, 2]), "a window of padding alone"),
    "a mean of updates": (lambda x: op.scatter_elements_update(x, C(np.zeros((1, 4, 9, 8), np.int64)), C(drawn(1, 4, 9, 8)), C(np.array(0)), "mean"), "reduction=mean"),
    "simple rounding": (lambda x: op.interpolate(x, ints(3, 4), "nearest", "sizes", nearest_mode="simple", axes=ints(2, 3)), "nearest_mode=simple"),
    "antialias": (lambda x: op.interpolate(x, ints(3, 4), "linear", "sizes", antialias=True, axes=ints(2, 3)), "antialias"),
    "no axes of NormalizeL2": (lambda x: op.normalize_l2(x, C(np.array([], np.int64)), 1e-5, "add"), "no axes"),
    "no axes of ReduceL1": (lambda x: op.reduce_l1(x, C(np.array([], np.int64)), True), "no axes"),
    "windows in images": (lambda x: op.lrn(x, ints(2, 3), 0.5, 0.7, 2.0, 3), "axis 1 could be expressed"),
    "no middle": (lambda x: op.lrn(x, ints(1), 0.5, 0.7, 2.0, 2), "no middle"),
    "no axes": (lambda x: op.reduce_l2(x, C(np.array([], np.int64)), True), "no axes"),
    "unknown": (lambda x: op.ctc_greedy_decoder(op.reshape(x, ints(6, 6, 8), False), C(np.ones((6, 6), np.float32))), "no counterpart"),
    "integers that ONNX does not convolve": (lambda x: op.convolution(op.convert(x, "i32"), C(np.ones((6, 4, 3, 3), np.int32)), [1, 1], [0, 0], [0, 0], [1, 1]), "no Conv of tensor(int32)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_onnx_does_not_compute_is_refused(name, tmp_path):
    build, why = REFUSED[name]
    feeds = [drawn(1, 6, 6, 8)] if name == "unknown" else [IMAGE]
    path = network(lambda x: build(x).output(0), feeds, tmp_path)
    with pytest.raises(Refused) as caught:
        openvino_ir.read(path)
    assert why in str(caught.value)


def test_what_is_rounded_otherwise_is_close(tmp_path):
    assert [change.grade for change in openvino_ir.read(network(op.hswish, [X], tmp_path)).changes] == ["close"]
    assert not openvino_ir.read(network(op.relu, [X], tmp_path)).changes


def test_what_changes_nothing_is_told_of_layers_that_are_read():
    assert IDLE.keys() <= MAPPINGS.keys()
    assert all(why for reasons in IDLE.values() for why in reasons.values())


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_may_make_a_scalar(flag, tmp_path):
    def body(reduced):
        inner = op.parameter([2, 3], np.float32)
        return openvino.Model([op.result(reduced(inner, ints(0, 1), False))], [inner], "body"), inner

    condition, x = op.parameter([], np.bool_), op.parameter([2, 3], np.float32)
    (most, first), (least, second) = body(op.reduce_max), body(op.reduce_min)
    chosen = op.if_op(condition.output(0))
    chosen.set_then_body(most), chosen.set_else_body(least)
    chosen.set_input(x.output(0), first, second)
    made = chosen.set_output(most.results[0], least.results[0])
    path = tmp_path / "net.xml"
    openvino.serialize(openvino.Model([op.result(made)], [condition, x], "net"), path)
    model, feed = openvino_ir.read(path).model, drawn(2, 3)
    onnx.checker.check_model(model, full_check=True)
    feeds = dict(zip((value.name for value in model.graph.input), (np.array(flag), feed), strict=True))
    assert OnnxRuntime(model).run(feeds)[0] == (feed.max() if flag else feed.min())


def test_the_page_lists_what_is_expressed():
    page = (Path(__file__).parents[3] / "docs" / "tasks" / "openvino.md").read_text(encoding="utf-8")
    listed = page.partition("not with every attribute:")[2].partition("Whatever else")[0]
    assert re.findall(r"`(\w+)`", listed) == sorted({*MAPPINGS, "Const", "Parameter", "Result"}, key=str.lower)


def rounds(x, start, step, axis):
    """Sums so far of the parts of an axis, first to last or last to first, and the last one of them."""
    part, so_far = (
        op.parameter([2 if axis else 1, 1 if axis else 3], np.float32),
        op.parameter([2 if axis else 1, 1 if axis else 3], np.float32),
    )
    total = op.add(part, so_far)
    body = openvino.Model([op.result(total)], [part, so_far], "body")
    iterator = op.tensor_iterator()
    iterator.set_function(body)
    iterator.set_sliced_input(part, x.output(0), start, step, 1, -1 - start, axis)
    iterator.set_merged_input(
        so_far, C(np.zeros((2, 1) if axis else (1, 3), np.float32)).output(0), body.results[0].output(0)
    )
    return [
        iterator.get_iter_value(body.results[0].output(0), -1),
        iterator.get_concatenated_slices(body.results[0].output(0), start, step, 1, -1 - start, axis),
    ]


@pytest.mark.parametrize(("start", "step"), [(0, 1), (-1, -1)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("output", [0, 1])
def test_a_tensor_iterator_goes_forward_or_backward(start, step, axis, output, tmp_path):
    feed = drawn(2, 3)
    path = network(lambda x: op.relu(rounds(x, start, step, axis)[output]), [feed], tmp_path)
    expected = CORE.compile_model(path, "CPU", AS_WRITTEN)([feed])[0]
    model = openvino_ir.read(path).model
    assert "Loop" in {node.op_type for node in model.graph.node}
    (actual,) = OnnxRuntime(model, folder=str(tmp_path)).run({model.graph.input[0].name: feed})
    assert not compare(expected, actual, "close").why

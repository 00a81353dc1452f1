"""Layers that move elements: layout, indexing; and recurrent ones, resampling, spectra."""

import itertools

import numpy as np
import pytest

pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op
from openvino import opset15

from tests.passes.openvino.networks import FLAGS, C, X, case, drawn, ints, made

# --- layout
case("Reshape special_zero", lambda x: op.reshape(x, ints(0, -1, 5), True), X)
case("Transpose without order", lambda x: op.transpose(x, C(np.array([], np.int64))), X)
for axes in ([-1], []):
    case(f"Squeeze {axes}", lambda x, axes=axes: op.squeeze(x, C(np.array(axes, np.int64))), drawn(1, 3, 1))
case(
    "VariadicSplit by a rest of the run time",
    lambda x, n: op.variadic_split(x, C(np.array(3)), n).output(1),
    X,
    np.array([1, -1, 2]),
)
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
for auto in ("valid", "same_upper", "same_lower"):
    case(
        f"ExtractImagePatches {auto}",
        lambda x, auto=auto: op.extract_image_patches(x, [2, 3], [2, 1], [1, 2], auto),
        drawn(2, 3, 5, 6),
    )
case(
    "SliceScatter",
    lambda x, y: opset15.slice_scatter(x, y, ints(-1, 1), ints(0, 100), ints(-2, 2), ints(1, 0)),
    drawn(6, 7), drawn(3, 3),
)  # fmt: skip
case(
    "SliceScatter of all",
    lambda x, y: opset15.slice_scatter(x, y, ints(0, 0), ints(9, 9), ints(1, 1)),
    drawn(2, 3),
    drawn(2, 3),
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
case("Transpose by an order of the run time that is none", op.transpose, drawn(2, 3, 4), np.array([], np.int64))
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

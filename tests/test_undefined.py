"""Calls that texts leave open are told from their neighbours, of which they do not."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.node_calls import calls
from tests.support import model
from tests.undefined import undefined
from tests.undefined.rows import ROWS

F = np.float32
SHOWN = "close: ; the sign of a zero; 0.0 instead of nan; 1 of 2 elements differ; size input must be greater than 0; shape [0]; scale must be greater than 0; Input 'depth' must be non-negative; Inferred shape and existing shape differ; -inf instead of 0.0; pre-allocated output; must be a scalar"


def io(**feeds: np.ndarray) -> dict[str, Any]:
    names = {"object": "string", "float32": "float", "float64": "double", "float8_e4m3fn": "float8e4m3fn"}
    shown = (
        f"{names.get(v.dtype.name, v.dtype.name)}[{','.join(map(str, v.shape))}] {k}".replace("[]", "")
        for k, v in feeds.items()
    )
    return {"inputs": ", ".join(shown)}


TREES = "TreeEnsembleRegressor<n_targets=1, target_treeids=[0,0], target_ids=[0,0], target_nodeids=[1,{}]>(x)"
# what is left open, an operator with inputs of which it is, and the same with inputs of which it is not
CASES: list[tuple[str, str, int, str, dict[str, Any], dict[str, Any]]] = [
    ("what is dropped", "y = Dropout(x, r, t)", 13, "float[N] y",
     {"x": np.ones(4, F), "r": np.array(0.5, F), "t": np.array(True)}, {"t": np.array(False)}),
    ("beside auto_pad", "y = AveragePool<kernel_shape=[2], auto_pad=\"SAME_UPPER\", pads=[1, 1]>(x)", 7, "float[A,B,C] y", {"x": np.ones((1, 1, 2), F)}, {}),
    ("is no scalar", "y = HammingWindow(n)", 17, "float[A] y", {"n": np.array([3])}, {"n": np.array(3)}),
    ("much of a rounding", "y = GlobalLpPool<p=0.001>(x)", 1, "float[A,B,C] y", {"x": np.ones((1, 1, 2), F)}, {}),
    ("farther than", "y = BitShift<direction=\"LEFT\">(x, s)", 11, "uint8[N] y", {"x": np.ones(2, np.uint8), "s": np.array([0, 8], np.uint8)},
     {"s": np.array([7, 7], np.uint8)}),
    ("one place for each", "y = MaxUnpool<kernel_shape=[2]>(x, i)", 11, "float[A,B,C] y", {"x": np.ones((1, 1, 1), F), "i": np.zeros((1, 2, 1), int)},
     {"i": np.zeros((1, 1, 1), int)}),
    ("a place is negative", "y = MaxUnpool<kernel_shape=[2]>(x, i)", 11, "float[A,B,C] y", {"x": np.ones((1, 1, 1), F), "i": np.full((1, 1, 1), -1)},
     {"i": np.zeros((1, 1, 1), int)}),
    ("divided by 0", "y = Div(x, z)", 14, "int64[N] y", {"x": np.ones(2, int), "z": np.array([1, 0])}, {"z": np.ones(2, int)}),
    ("what is to be one number", "y, i = TopK(x, k)", 11, "float[N] y", {"x": np.ones(2, F), "k": np.array([1, 1])},
     {"k": np.array([1])}),
    ("what is to be one number", "y = NonMaxSuppression(b, s, n)", 11, "int64[N,3] y",
     {"b": np.ones((1, 1, 4), F), "s": np.ones((1, 1, 1), F), "n": np.zeros(0, int)}, {"n": np.ones(1, int)}),
    ("sizes differ", "y = Attention(q, k, v)", 23, "float[A,B,C,D] y",
     {"q": np.ones((2, 1, 1, 1), F), "k": np.ones((1, 1, 1, 1), F), "v": np.ones((1, 1, 1, 1), F)}, {"q": np.ones((1, 1, 1, 1), F)}),
    ("sizes differ", "y = RoiAlign(x, r, b)", 16, "float[A,B,C,D] y",
     {"x": np.ones((1, 1, 2, 2), F), "r": np.ones((1, 4), F), "b": np.zeros(2, int)}, {"b": np.zeros(1, int)}),
    ("four ends", "y = RoiAlign(x, r, b)", 16, "float[A,B,C,D] y",
     {"x": np.ones((1, 1, 2, 2), F), "r": np.ones((1, 6), F), "b": np.zeros(1, int)}, {"r": np.ones((1, 4), F)}),
    ("no integer counts", "y = RoiAlign(x, r, b)", 16, "float[A,B,C,D] y",
     {"x": np.ones((1, 1, 2, 2), F), "r": np.array([[0, 0, 1e30, 1]], F), "b": np.zeros(1, int)}, {"r": np.ones((1, 4), F)}),
    ("four ends", "y = NonMaxSuppression(b, s)", 11, "int64[N,3] y",
     {"b": np.ones((1, 1, 5), F), "s": np.ones((1, 1, 1), F)}, {"b": np.ones((1, 1, 4), F)}),
    ("sizes differ", "y = NonMaxSuppression(b, s)", 11, "int64[N,3] y",
     {"b": np.ones((1, 2, 4), F), "s": np.ones((1, 2, 1), F)}, {"b": np.ones((1, 1, 4), F)}),
    ("one weight for each", "y = NegativeLogLikelihoodLoss(x, t, w)", 13, "float y",
     {"x": np.ones((1, 2), F), "t": np.zeros(1, int), "w": np.ones(1, F)}, {"w": np.ones(2, F)}),
    ("a bound is", "y = Range(a, b, c)", 11, "float[N] y", {"a": np.ones(1, F), "b": np.array(2, F), "c": np.array(1, F)}, {"a": np.array(1, F)}),
    ("no finite number of elements", "y = Range(a, b, c)", 11, "float[N] y",
     {"a": np.array(np.nan, F), "b": np.array(2, F), "c": np.array(1, F)}, {"a": np.array(np.inf, F)}),
    ("no finite number of elements", "y = Range(a, b, c)", 11, "float[N] y",
     {"a": np.array(1, F), "b": np.array(np.inf, F), "c": np.array(1, F)}, {"c": np.array(-1, F)}),
    ("one length for each", "y = ReverseSequence<batch_axis=0, time_axis=1>(x, l)", 10, "float[A,B] y",
     {"x": np.ones((2, 3), F), "l": np.ones(3, int)}, {"l": np.ones(2, int)}),
    ("so long", "y = ReverseSequence<batch_axis=0, time_axis=1>(x, l)", 10, "float[A,B] y",
     {"x": np.ones((2, 3), F), "l": np.array([-1, 1])}, {"l": np.array([3, 0])}),
    ("none of the data", "y = MeanVarianceNormalization(x)", 9, "float[A,B,C] y", {"x": np.ones((1, 1, 1), F)},
     {"x": np.arange(4, dtype=F).reshape(1, 1, 2, 2)}),
    ("beyond their type", "y = ReduceL2(x)", 13, "int64[A] y", {"x": np.array([-(2**63)])}, {"x": np.array([-5])}),
    ("whole powers", "y = Pow(x, p)", 12, "int64[A] y", {"x": np.array([-(2**63)]), "p": np.array([4], F)}, {"x": np.array([-5])}),
    ("whole products", "y = MatMul(a, b)", 9, "int32[A,B] y", {"a": np.array([[3, -(2**31)]], np.int32), "b": np.array([[-1], [1]], np.int32)},
     {"a": np.array([[2**30, 2 - 2**30]], np.int32)}),
    ("whole products", 'y = Einsum<equation="i,i">(a, b)', 12, "int64 y", {"a": np.array([2**62, 2**62]), "b": np.array([1, -1])},
     {"a": np.array([2**61, 2**61])}),
    ("no variance", "v = MeanVarianceNormalization(x) y = GlobalMaxPool(v)", 13, "float[A,B,C,D] y", {"x": np.ones((1, 2, 1, 1), F)},
     {"x": np.arange(4, dtype=F).reshape(1, 1, 2, 2)}),
    ("no variance", "y = MeanVarianceNormalization(x)", 13, "float[A,B,C,D] y", {"x": np.ones((1, 2, 1, 1), F)},
     {"x": np.arange(4, dtype=F).reshape(1, 1, 2, 2)}),
    ("1e-9 counts", "y = MeanVarianceNormalization<axes=[0]>(x)", 13, "float[A] y", {"x": np.array([0, 1e-7], F)}, {"x": np.array([0, 1], F)}),
    ("no share from 0 to 1", "y = NonMaxSuppression(b, s, n, t)", 11, "int64[N,3] y",
     {"b": np.ones((1, 1, 4), F), "s": np.ones((1, 1, 1), F), "n": np.ones(1, int), "t": np.array([-0.75], F)}, {"t": np.array([0.5], F)}),
    ("statistics of channels", "y = BatchNormalization(x, s, s, s, v)", 9, "float[A,B] y",
     {"x": np.ones((2, 1), F), "s": np.ones(1, F), "v": np.ones((1, 1), F)}, {"v": np.ones(1, F)}),
    ("does not lead on", "y = STFT(x, n, w)", 17, "float[A,B,C,D] y", {"x": np.ones((1, 4, 1), F), "n": np.array(-1), "w": np.ones(2, F)},
     {"n": np.array(2)}),
    ("a frequency is negative", "y = MelWeightMatrix(n, d, s, l, h)", 17, "float[A,B] y",
     {"n": np.array(8), "d": np.array(16), "s": np.array(8192), "l": np.array(1, F), "h": np.array(-2, F)}, {"h": np.array(2000, F)}),
    ("a frequency is negative", "y = MelWeightMatrix(n, d, s, l, h)", 17, "float[A,B] y",
     {"n": np.array(8), "d": np.array(16), "s": np.array(-1), "l": np.array(1, F), "h": np.array(2, F)}, {"s": np.array(1)}),
    ("there is no text", "y = StringNormalizer(x)", 10, "string[N] y", {"x": np.zeros(0, object)}, {"x": np.array(["a"], object)}),
    ("is no class", "y = NegativeLogLikelihoodLoss<reduction=\"none\", ignore_index=-1>(x, t)", 13, "float[N] y",
     {"x": np.ones((2, 3), F), "t": np.array([-1, 3])}, {"t": np.array([-1, 2])}),
    *(("another rank", "y = STFT(x, n)", 17, "float[A,B,C,D] y", {"x": np.ones(sizes, F), "n": np.array(1)}, {"x": np.ones((1, 4, 1), F)})
      for sizes in ((1, 4), (1, 1, 4, 1))),
    ("another rank", "y = STFT(x, n, w)", 17, "float[A,B,C,D] y", {"x": np.ones((1, 4, 1), F), "n": np.array(1), "w": np.ones((1, 2), F)},
     {"w": np.ones(2, F)}),
    ("none of the data", "y = ReduceSum<axes=[2]>(x)", 8, "float[A,B] y", {"x": np.ones((1, 1), F)}, {"x": np.ones((1, 1, 1), F)}),
    ("no broadcast is asked", "y = Sub(x, z)", 3, "float[N] y", {"x": np.ones(1, F), "z": np.ones(0, F)}, {"z": np.ones(1, F)}),
    ("the lower rank", "y = Div<broadcast=1>(x, z)", 3, "float[A,B] y", {"x": np.ones(1, F), "z": np.ones((1, 1), F)},
     {"x": np.ones((1, 1), F)}),
    ("none of the signal", "y = DFT(x, , a)", 20, "float[A,B,C] y", {"x": np.ones((1, 4, 1), F), "a": np.array(-(2**31))}, {"a": np.array(1)}),
    ("beside the axis", "y = Concat<axis=0>(x, z)", 13, "float[A,B] y", {"x": np.ones((1, 0), F), "z": np.ones((1, 1), F)},
     {"x": np.ones((2, 1), F)}),
    ("no window", "y = HannWindow(n)", 17, "float[A] y", {"n": np.array(0)}, {"n": np.array(1)}),
    ("the rows hang on", "y = Det(x)", 11, "float y", {"x": np.ones((2, 2), F)}, {"x": np.eye(2, dtype=F)}),
    ("left but a rounding", "y = BlackmanWindow(n)", 17, "float[A] y", {"n": np.array(1)}, {}),
    ("the first of all", "y = BlackmanWindow(n)", 17, "float[A] y", {"n": np.array(3)}, {}),
    ("heads are told", "y = Attention<q_num_heads=1, kv_num_heads=1>(q, q, q)", 24, "float[A,B,C,D] y", {"q": np.ones((1, 1, 1, 1), F)},
     {"q": np.ones((1, 1, 1), F)}),
    ("scale is not positive", "y = Attention<scale=-1.0>(q, q, q)", 24, "float[A,B,C,D] y", {"q": np.ones((1, 1, 1, 1), F)}, {}),
    ("a softcap is negative", "y = Attention<softcap=-1.0>(q, q, q)", 24, "float[A,B,C,D] y", {"q": np.ones((1, 1, 1, 1), F)}, {}),
    ("another rank", "y = Compress(x, c)", 11, "float[N] y", {"x": np.ones(1, F), "c": np.array(True)}, {"c": np.ones(1, bool)}),
    ("an end of the region", 'y = Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, r, s)', 13, "float[N] y",
     {"x": np.ones(1, F), "r": np.array([0, -np.inf], F), "s": np.ones(1, F)}, {"r": np.array([0, 1], F)}),
    ("another rank", "y = Pad(x, p)", 13, "float[N] y", {"x": np.ones(1, F), "p": np.ones((1, 2), int)}, {"p": np.ones(2, int)}),
    ("another rank", 'y = Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, r, s)', 13, "float[N] y",
     {"x": np.ones(1, F), "r": np.array([[0, 1]], F), "s": np.ones(1, F)}, {"r": np.array([0, 1], F)}),
    ("another rank", "y = Resize(x, , s)", 13, "float[N] y", {"x": np.ones(1, F), "s": np.ones((1, 1), F)}, {"s": np.ones(1, F)}),
    ("another rank", "y = Upsample(x, s)", 9, "float[N] y", {"x": np.ones(1, F), "s": np.ones((1, 1), F)}, {"s": np.ones(1, F)}),
    ("more conditions", "y = Compress(x, c)", 11, "float[N] y", {"x": np.ones(1, F), "c": np.ones(2, bool)}, {"c": np.ones(1, bool)}),
    *(("scale or bias is larger", "y = LayerNormalization(x, s, b)", 17, "float[A,B] y",
       {"x": np.ones((1, 2), F), "s": np.ones(2, F), "b": np.ones(sizes, F)}, {"b": np.ones((1, 2), F)}) for sizes in ((1, 1, 2), (0, 2))),
    ("the slope is larger", "y = PRelu(x, s)", 6, "float[N] y", {"x": np.array(1, F), "s": np.ones(1, F)}, {"x": np.ones(2, F)}),
    ("the slope is larger", "y = PRelu(x, s)", 16, "float[N] y", {"x": np.ones(1, F), "s": np.ones(2, F)}, {"s": np.ones(1, F)}),
    ("no finite scale", "y, s, z = DynamicQuantizeLinear(x)", 11, "uint8[N] y", {"x": np.array([np.inf], F)}, {"x": np.ones(1, F)}),
    ("sizes of a scale", "y = QuantizeLinear<axis=0>(x, s)", 13, "uint8[N] y", {"x": np.ones(2, F), "s": np.ones(3, F)},
     {"s": np.ones(2, F)}),
    ("sizes of a scale", "y = DequantizeLinear<axis=0, block_size=2>(x, s, z)", 23, "float[N] y",
     {"x": np.ones(2, np.uint8), "s": np.ones(1, F), "z": np.array(1, np.uint8)}, {"z": np.ones(1, np.uint8)}),
    ("sizes of a scale", "y = DequantizeLinear<block_size=2>(x, s)", 23, "float[A,B] y",
     {"x": np.ones(2, np.uint8), "s": np.ones(1, F)}, {"x": np.ones((1, 2), np.uint8), "s": np.ones((1, 1), F)}),
    ("the wrong way round", "_, y = RNN<hidden_size=1, clip=-1.0>(x, w, r)", 14, "float[A,B,C] y",
     {"x": np.ones((1, 1, 1), F), "w": np.ones((1, 1, 1), F), "r": np.ones((1, 1, 1), F)}, {}),
    ("both signs", "y = MaxPool<kernel_shape=[2]>(x)", 13, "float[A,B,C] y", {"x": np.array([[[0.0, -0.0]]], F)}, {"x": np.zeros((1, 1, 2), F)}),
    ("both signs", "y = Max(x, z)", 13, "float[N] y", {"x": np.zeros(1, F), "z": -np.zeros(1, F)}, {"z": np.zeros(1, F)}),
    ("begin at 0", "y = AveragePool<kernel_shape=[1]>(x)", 13, "float[A,B,C] y", {"x": -np.zeros((1, 1, 1), F)},
     {"x": np.zeros((1, 1, 1), F)}),
    ("one size for each", "y = CenterCropPad(x, n)", 18, "float[N] y", {"x": np.ones(1, F), "n": np.array([1, 1])}, {"n": np.array([2])}),
    ("one size for each part", "y, z = Split(x, s)", 13, "float[N] y", {"x": np.ones(2, F), "s": np.zeros(0, int)}, {"s": np.ones(2, int)}),
    ("sizes of parts", "y = SplitToSequence(x, s)", 11, "seq(float[A]) y",
     {"x": np.ones(2, F), "s": np.full(2, -(2**63))}, {"s": np.ones(2, int)}),
    ("sizes of parts", "y = SplitToSequence(x, s)", 11, "seq(float[A]) y", {"x": np.ones(2, F), "s": np.array(0)}, {"s": np.array(3)}),
    ("sizes of parts", "y, z = Split<split=[1, 2]>(x)", 11, "float[A] y", {"x": np.ones(2, F)}, {"x": np.ones(3, F)}),
    ("behind the end", "y, z, v = Split<num_outputs=3>(x)", 18, "float[N] y", {"x": np.ones(1, F)}, {"x": np.ones(2, F)}),
    ("no pixel", "y = RoiAlign(x, r, b)", 16, "float[A,B,C,D] y",
     {"x": np.ones((1, 1, 0, 2), F), "r": np.ones((1, 4), F), "b": np.zeros(1, int)}, {"x": np.ones((1, 1, 2, 2), F)}),
    ("no pixel", "y = GlobalMaxPool(x)", 20, "float[A,B,C] y", {"x": np.ones((1, 1, 0), F)}, {"x": np.ones((1, 1, 2), F)}),
    ("a letter has", 'y = Einsum<equation="...ij, jk">(x, z)', 12, "float[A,B] y", {"x": np.ones((2, 1), F), "z": np.ones((3, 2), F)},
     {"x": np.ones((2, 3), F)}),
    ("heads of queries and", "y = Attention<q_num_heads=1, kv_num_heads=1>(q, k, k)", 23, "float[A,B,C] y",
     {"q": np.ones((1, 1, 2), F), "k": np.ones((1, 1, 1), F)}, {"k": np.ones((1, 1, 2), F)}),
    ("keys for no head", "y = Attention(q, k, v)", 23, "float[A,B,C,D] y",
     {"q": np.ones((1, 0, 1, 1), F), "k": np.ones((1, 1, 1, 1), F), "v": np.ones((1, 1, 1, 1), F)}, {"q": np.ones((1, 1, 1, 1), F)}),
    ("sizes differ", "y = Attention(q, q, q, , , , l)", 24, "float[A,B,C,D] y",
     {"q": np.ones((2, 1, 1, 1), F), "l": np.array([1])}, {"l": np.array([1, 1])}),
    ("updates have other sizes", "y = ScatterND(x, i, u)", 18, "float[A,B] y",
     {"x": np.ones((2, 3), F), "i": np.zeros((0, 1), int), "u": np.ones((0, 2), F)}, {"u": np.ones((0, 3), F)}),
    ("lose NaN", 'y = ScatterElements<reduction="max">(x, i, u)', 18, "float[A] y",
     {"x": np.ones(1, F), "i": np.zeros(2, int), "u": np.array([np.nan, 1], F)}, {"u": np.ones(2, F)}),
    ("lose NaN", 'y = ScatterND<reduction="min">(x, i, u)', 18, "float[A] y",
     {"x": np.array([np.nan], F), "i": np.zeros((1, 1), int), "u": np.ones(1, F)}, {"x": np.ones(1, F)}),
    ("one update for each", "y = ScatterElements(x, i, u)", 18, "float[A,B] y",
     {"x": np.ones((2, 3), F), "i": np.zeros((0, 3), int), "u": np.ones((0, 2), F)}, {"u": np.ones((0, 3), F)}),
    ("told twice", "y = Slice<axes=[0,0], starts=[0,0], ends=[1,1]>(x)", 9, "float[A,B] y", {"x": np.ones((2, 2), F)}, {}),
    ("asked for than there are", "y, i = TopK(x, k)", 11, "float[N] y", {"x": np.ones(2, F), "k": np.array([3])}, {"k": np.array([2])}),
    ("asked for than there are", "y, i = TopK<k=3>(x)", 5, "float[N] y", {"x": np.ones(2, F)}, {"x": np.ones(3, F)}),
    *(("other sizes than the scores", "y = Attention(q, k, q, m)", 24, "float[A,B,C,D] y",
       {"q": np.ones((2, 1, 1, 1), F), "k": np.ones((2, 1, 1, 1), F), "m": np.ones(sizes, F)}, {"m": np.ones((2, 1, 1, 1), F)})
      for sizes in ((2, 1), (1, 2), (3, 1, 1, 1), (1, 1, 1, 1, 1))),
    ("more keys count", "y = Attention(q, q, q, , , , l)", 24, "float[A,B,C,D] y",
     {"q": np.ones((1, 1, 2, 1), F), "l": np.array([3])}, {"l": np.array([2])}),
    ("depth is negative", "d = Neg(n) y = OneHot(i, d, v)", 11, "float[A,B] y",
     {"i": np.array([0]), "n": np.array(6), "v": np.ones(2, F)}, {"n": np.array(-6)}),
    ("one end for each", "y = Slice(x, s, e)", 13, "float[A] y", {"x": np.ones(2, F), "s": np.array([0]), "e": np.zeros(0, int)},
     {"e": np.array([1])}),
    ("have other sizes", "_, y = GRU<hidden_size=1>(x, w, w, , n)", 14, "float[A,B,C] y",
     {"x": np.ones((1, 1, 1), F), "w": np.ones((1, 3, 1), F), "n": np.zeros(0, np.int32)}, {"n": np.ones(1, np.int32)}),
    ("have other sizes", "_, y = LSTM<hidden_size=3>(x, w, r)", 14, "float[A,B,C] y",
     {"x": np.ones((1, 1, 1), F), "w": np.ones((1, 1, 1), F), "r": np.ones((1, 12, 3), F)}, {"w": np.ones((1, 12, 1), F)}),
    ("have other sizes", "_, y = RNN<hidden_size=1>(x, w, r)", 14, "float[A,B,C] y",
     {"x": np.ones((1, 1, 1), F), "w": np.ones((1, 1, 1), F), "r": np.ones((1, 2, 1), F)}, {"r": np.ones((1, 1, 1), F)}),
    ("have other sizes", "_, y = RNN<hidden_size=2>(x, w, r)", 14, "float[A,B,C] y",
     {"x": np.ones((1, 1, 1), F), "w": np.ones((1, 1, 1), F), "r": np.ones((1, 1, 1), F)}, {"w": np.ones((1, 2, 1), F), "r": np.ones((1, 2, 2), F)}),
    ("a place is no number", "y = GridSample(x, g)", 16, "float[A,B,C,D] y",
     {"x": np.ones((1, 1, 2, 2), F), "g": np.full((1, 1, 1, 2), np.nan, F)}, {"g": np.zeros((1, 1, 1, 2), F)}),
    ("none of the data", "y = LayerNormalization<axis=1>(x, s)", 17, "float[A] y", {"x": np.ones(1, F), "s": np.ones(1, F)},
     {"x": np.ones((1, 1), F)}),
    ("none of the data", "y = ArgMin<axis=3>(x)", 10, "int64[A,B] y", {"x": np.ones((1, 1), F)}, {"x": np.ones((1, 1, 1, 1), F)}),
    ("nothing along the axis", "y = ArgMax<axis=-1>(x)", 13, "int64[A,B] y", {"x": np.ones((1, 0), F)}, {"x": np.ones((0, 1), F)}),
    ("outside the data", "y = GatherND(x, i)", 13, "float[A,B] y", {"x": np.ones((0, 0), F), "i": np.zeros((1, 1), int)},
     {"x": np.ones((1, 0), F)}),
    ("NaN becomes", "y = QuantizeLinear(x, s)", 13, "uint8[N] y", {"x": np.full(1, np.nan, F), "s": np.array(1, F)}, {"x": np.ones(1, F)}),
    ("or no number", "y = QuantizeLinear(x, s)", 13, "uint8[N] y", {"x": np.ones(1, F), "s": np.array(np.nan, F)}, {"s": np.array(1, F)}),
    ("a scale is 0", "y = QuantizeLinear(x, s)", 13, "uint8[N] y", {"x": np.ones(1, F), "s": np.array(0, F)}, {"s": np.array(1, F)}),
    ("another rank", "_, y = RNN<hidden_size=1>(x, w, r)", 6, "float[A,B,C] y",
     {"x": np.ones((1, 1, 1, 1), F), "w": np.ones((1, 1, 1), F), "r": np.ones((1, 1, 1), F)}, {"x": np.ones((1, 1, 1), F)}),
    ("not positive", "y = LpPool<kernel_shape=[1], p=-0.5>(x)", 1, "float[A,B,C] y", {"x": np.ones((1, 1, 1), F)}, {}),
    ("kernel is larger", "y = AveragePool<kernel_shape=[3], ceil_mode=1>(x)", 10, "float[A,B,C] y", {"x": np.ones((1, 1, 1), F)},
     {"x": np.ones((1, 1, 3), F)}),
    ("pads alone", "y = MaxPool<kernel_shape=[2], dilations=[2], pads=[1, 1]>(x)", 12, "float[A,B,C] y", {"x": np.ones((1, 1, 1), F)},
     {"x": np.ones((1, 1, 2), F)}),
    ("pads alone", 'y = MaxPool<kernel_shape=[2], dilations=[2], auto_pad="SAME_LOWER">(x)', 12, "float[A,B,C] y", {"x": np.ones((1, 1, 1), F)},
     {"x": np.ones((1, 1, 2), F)}),
    ("pads alone", "y = AveragePool<kernel_shape=[2], dilations=[2], pads=[1, 1], count_include_pad=0>(x)", 19, "float[A,B,C] y",
     {"x": np.ones((1, 1, 1), F)}, {"x": np.ones((1, 1, 2), F)}),
    ("pads alone", "y = MaxPool<kernel_shape=[1], pads=[0, 1]>(x)", 12, "float[A,B,C] y", {"x": np.ones((1, 1, 1), F)}, {}),
    ("none of rows", "y = QLinearMatMul(a, s, z, a, u, z, u, z)", 10, "uint8[A,B] y",
     {"a": np.ones((2, 2), np.uint8), "s": np.ones(3, F), "z": np.array(1, np.uint8), "u": np.array(1, F)}, {"s": np.array(1, F)}),
    ("none of rows", "y = QLinearMatMul(a, s, p, a, u, z, u, z)", 10, "uint8[A,B] y",
     {"a": np.ones((2, 2), np.uint8), "s": np.ones(2, F), "p": np.array(1, np.uint8), "z": np.array(1, np.uint8), "u": np.array(1, F)},
     {"p": np.ones(2, np.uint8)}),
    ("none of rows", "y = MatMulInteger(a, a, , z)", 10, "int32[A,B,C] y", {"a": np.ones((1, 2, 2), np.uint8), "z": np.ones((1, 2, 1), np.uint8)},
     {"z": np.ones((1, 1, 2), np.uint8)}),
    ("by another", "y = QuantizeLinear(x, s)", 13, "uint8[N] y", {"x": np.array([np.inf], F), "s": np.array(np.inf, F)}, {"s": np.array(1, F)}),
    ("do not divide", "y = SpaceToDepth<blocksize=3>(x)", 13, "float[A,B,C,D] y", {"x": np.ones((1, 1, 1, 0), F)}, {"x": np.ones((1, 1, 3, 0), F)}),
    ("one repeat for each", "y = Tile(x, n)", 13, "float[A,B] y", {"x": np.ones((1, 1), F), "n": np.array([2])}, {"n": np.array([2, 1])}),
    ("another rank", "y = Gemm<transB=1>(a, b, c)", 6, "float[A,B] y",
     {"a": np.ones((1, 1, 2), F), "b": np.ones((3, 2), F), "c": np.ones((1, 3), F)}, {"a": np.ones((1, 2), F)}),
    ("other sizes than the product", "y = Gemm<broadcast=1, transB=1>(a, b, c)", 6, "float[A,B] y",
     {"a": np.ones((1, 1), F), "b": np.ones((0, 1), F), "c": np.ones(2, F)}, {"c": np.ones(1, F)}),
    ("none of the data", "y = Softmax<axis=1>(x)", 8, "float[A] y", {"x": np.ones(0, F)}, {"x": np.ones((0, 2), F)}),
    ("but a rounding", "w = HannWindow<periodic=0>(n) y = Reciprocal(w)", 17, "float[A] y", {"n": np.array(10)}, {"n": np.array(1)}),
    ("what is added", "y = Gemm(a, b)", 13, "float[A,B] y", {"a": np.ones((1, 0), F), "b": np.ones((0, 1), F)},
     {"a": np.ones((1, 1), F), "b": np.ones((1, 1), F)}),
    ("broadcast from 8 on", "y = Max(a, b)", 7, "float[A] y", {"a": np.ones(1, F), "b": np.ones(2, F)}, {"a": np.ones(2, F)}),
    ("told twice", "y = Pad(x, p, , a)", 18, "float[A,B] y", {"x": np.ones((1, 2), F), "p": np.array([4, 0, 3, 0]), "a": np.array([1, -1])},
     {"a": np.array([1, -2])}),
    ("told twice", "y = Slice(x, s, s, a)", 10, "float[A,B] y", {"x": np.ones((1, 2), F), "s": np.zeros(2, int), "a": np.array([1, -1])},
     {"a": np.array([1, 0])}),
    ("told twice", "y = CenterCropPad<axes=[1, -2]>(x, s)", 18, "float[A,B,C] y", {"x": np.ones((1, 2, 1), F), "s": np.ones(2, int)},
     {"x": np.ones((1, 2, 1, 1), F)}),
    ("another rank", "y = TreeEnsembleRegressor<n_targets=1>(x)", 13, "float[A,B] y", {"x": np.ones(1, F)}, {"x": np.ones((1, 1), F)}),
    ("two weights", f"y = {TREES.format(1)}", 13, "float[A,B] y", {"x": np.ones((1, 1), F)}, {}),
    ("that are close", "y = Unique(x)", 13, "float[A] y", {"x": np.ones(1, F)}, {"x": np.ones(1, int)}),
    ("may hold NaN", "y = Unique<axis=0>(x)", 13, "float[A,B] y", {"x": np.full((2, 1), np.nan, F)}, {"x": np.ones((2, 1), int)}),
    ("one position for each", "y = RotaryEmbedding(x, c, c, p)", 23, "float[A,B,C,D] y",
     {"x": np.ones((1, 1, 2, 2), F), "c": np.ones((3, 1), F), "p": np.ones((1, 3), int)}, {"p": np.ones((1, 2), int)}),
    ("is no class", "y = NegativeLogLikelihoodLoss<ignore_index=5>(x, t)", 13, "float y",
     {"x": np.ones((3, 2), F), "t": np.array([0, 5, -1])}, {"t": np.array([0, 5, 1])}),
    ("the angles", "y = RotaryEmbedding(x, c, s)", 23, "float[A,B,C,D] y",
     {"x": np.ones((2, 1, 2, 2), F), "c": np.ones((2, 1), F), "s": np.ones((2, 2, 1), F)}, {"c": np.ones((2, 2, 1), F)}),
    ("an odd size", "y = RotaryEmbedding(x, c, c)", 23, "float[A,B,C,D] y",
     {"x": np.ones((0, 1, 1, 1), F), "c": np.ones((0, 1, 0), F)}, {"x": np.ones((0, 1, 1, 2), F), "c": np.ones((0, 1, 1), F)}),
    ("an odd size", "y = RotaryEmbedding<num_heads=2>(x, c, c)", 23, "float[A,B,C] y",
     {"x": np.ones((1, 1, 6), F), "c": np.ones((1, 1, 1), F)}, {"x": np.ones((1, 1, 4), F)}),
    ("of all statistics", "y = BatchNormalization<is_test=1>(x, v, s, v, s)", 6, "float[A,B,C] y",
     {"x": np.ones((2, 1, 1), F), "s": np.ones(1, F), "v": np.ones(2, F)}, {"v": np.ones(1, F)}),
    ("another rank", "y = InstanceNormalization(x, s, b)", 6, "float[A,B,C] y",
     {"x": np.ones((1, 1, 2), F), "s": np.ones(1, F), "b": np.ones((1, 1), F)}, {"b": np.ones(1, F)}),
    ("for each channel", "y = InstanceNormalization(x, s, s)", 6, "float[A,B,C] y",
     {"x": np.ones((1, 1, 2), F), "s": np.ones(0, F)}, {"s": np.ones(1, F)}),
    ("another rank", "y = GroupNormalization<num_groups=1>(x, s, b)", 21, "float[A,B,C] y",
     {"x": np.ones((1, 1, 1), F), "s": np.ones(1, F), "b": np.ones((1, 1), F)}, {"b": np.ones(1, F)}),
    ("to be found out", "y = Reshape<allowzero=1>(x, n)", 14, "float[A,B] y", {"x": np.ones((0, 1), F), "n": np.array([-1, 0])},
     {"n": np.array([1, 0])}),
    ("other axes", "y = LpPool<kernel_shape=[1, 1]>(x)", 1, "float[A,B,C] y", {"x": np.ones((1, 1, 1), F)}, {"x": np.ones((1, 1, 1, 1), F)}),
    ("other batches", "y = GatherND<batch_dims=1>(x, i)", 13, "float[N] y", {"x": np.ones((1, 2), F), "i": np.zeros((2, 1), int)},
     {"i": np.zeros((1, 1), int)}),
    ("zero point of float8", "y = QuantizeLinear(x, s, z)", 19, "float8e4m3fn[N] y",
     {"x": np.ones(1, F), "s": np.array(1, F), "z": np.array(1, ml_dtypes.float8_e4m3fn)}, {"z": np.array(0, ml_dtypes.float8_e4m3fn)}),
    ("no region", 'y = Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, r, , n)', 19, "float[N] y",
     {"x": np.ones(1, F), "r": np.zeros(0, F), "n": np.array([2])}, {"r": np.array([0, 1], F)}),
    ("no order holds", "y, i = TopK(x, k)", 10, "float[N] y", {"x": np.array([1, np.nan], F), "k": np.array([1])}, {"x": np.ones(2, F)}),
    ("any order", "y, i = TopK<sorted=0>(x, k)", 11, "float[N] y", {"x": np.ones(2, F), "k": np.array([1])}, {}),
    ("negative", "y = CenterCropPad(x, n)", 18, "float[N] y", {"x": np.ones(1, F), "n": np.array([-1])}, {"n": np.array([2])}),
    ("the last one", "y = Loop(, c, x) <body = b (int64 i, bool t, float[1] v) => (bool u, float[1] w) { u = Identity(t) w = Identity(v) }>",
     16, "float[1] y", {"c": np.array(True), "x": np.ones(1, F)}, {"c": np.array(False)}),
    ("no trip whose", "y = Loop(n) <body = b (int64 i, bool t) => (bool u, float[A] w) { u = Identity(t) w = Cast<to=1>(i) }>",
     16, "float[A,B] y", {"n": np.array(0)}, {"n": np.array(1)}),
    ("the last one", "y = Loop(, , x) <body = b (int64 i, bool t, float[1] v) => (bool u, float[1] w) "
     "{ s = Constant<value = bool {1}>() u = Identity(s) w = Identity(v) }>", 16, "float[1] y", {"x": np.ones(1, F)}, {}),
]  # fmt: skip


LOOP = (
    "y = Loop({}, c, x) <body = b (int64 i, bool t, float[1] v) => (bool u, float[1] w) {{ u = {} w = Identity(v) }}>"
)


@pytest.mark.parametrize(
    ("trips", "condition"), [("n", "Identity(t)"), ("", "Not(t)"), ("", "Constant<value = bool {0}>()")]
)
def test_a_loop_that_ends_is_told(trips, condition):
    feeds = {"n": np.array(2), "c": np.array(True), "x": np.ones(1, F)}
    assert not undefined(model(LOOP.format(trips, condition), 16, outputs="float[1] y", **io(**feeds)), feeds)


@pytest.mark.parametrize(
    ("what", "body", "opset", "outputs", "feeds", "others"), CASES, ids=lambda c: c if isinstance(c, str) else ""
)
def test_what_is_left_open(what, body, opset, outputs, feeds, others):
    of = model(body, opset, outputs=outputs, **io(**feeds))
    assert what in undefined(of, feeds, SHOWN)
    if others:
        said = feeds | others
        assert not undefined(model(body, opset, outputs=outputs, **io(**said)), said, SHOWN)


def test_each_row_is_tried():
    assert {row.what for row in ROWS} == {row.what for row in ROWS if any(what in row.what for what, *_ in CASES)}


def test_a_call_that_is_not_well_formed_is_left_to_the_checker():
    feeds = {"x": np.ones((1, 1, 2), F)}
    of = model("y = Attention<q_num_heads=0, kv_num_heads=1>(x, x, x)", 23, outputs="float[A,B,C] y", **io(**feeds))
    assert not undefined(of, feeds)


def test_a_difference_that_is_not_left_open_counts():
    feeds = {"x": np.zeros(1, F), "z": -np.zeros(1, F)}
    of = model("y = Max(x, z)", 13, outputs="float[N] y", **io(**feeds))
    assert not undefined(of, feeds)
    assert not undefined(of, feeds, "1.0 instead of 2.0")


def test_a_window_is_as_it_is_but_for_what_a_rounding_makes():
    feeds = {"n": np.array(3)}
    of = model("y = BlackmanWindow(n)", 17, outputs="float[A] y", **io(**feeds))
    assert undefined(of, feeds, "-67108864.0 instead of inf")
    assert not undefined(of, feeds, "1 of 3 elements differ")


@pytest.mark.parametrize("told", ["pads=[1, 1]", 'auto_pad="SAME_UPPER"', 'auto_pad="SAME_UPPER", pads=[0, 0]'])
def test_pads_that_are_told_once_are_defined(told):
    feeds = {"x": np.ones((1, 1, 2), F)}
    of = model(f"y = AveragePool<kernel_shape=[2], {told}>(x)", 7, outputs="float[A,B,C] y", **io(**feeds))
    assert not undefined(of, feeds, "pre-allocated output")


def test_pads_that_count_are_data():
    feeds = {"x": np.ones((1, 1, 1), F)}
    body = "y = AveragePool<kernel_shape=[2], dilations=[2], pads=[1, 1], count_include_pad=1>(x)"
    assert not undefined(model(body, 19, outputs="float[A,B,C] y", **io(**feeds)), feeds, SHOWN)


def test_calls_in_branches_and_of_computed_values_count():
    of = model(
        "z = Sub(x, x) y = If(c) <then_branch = t () => (int64[N] a) { a = Div(x, z) }, else_branch = e () => (int64[N] b) { b = Neg(x) }>",
        14, inputs="int64[N] x, bool c", outputs="int64[N] y",
    )  # fmt: skip
    onnx.checker.check_model(of)
    assert "divided by 0" in undefined(of, {"x": np.ones(2, int), "c": np.array(False)})


def test_sizes_of_what_is_computed_inside_of_graphs_count():
    of = model(
        "y = If(c) <then_branch = t () => (float[N] a) { k = Cast<to=9>(x) a = Compress(d, k) }, "
        "else_branch = e () => (float[N] b) { b = Identity(d) }>",
        13, inputs="float[] x, float[2] d, bool c", outputs="float[N] y",
    )  # fmt: skip
    feeds = {"x": np.ones((1, 2), F), "d": np.ones(2, F), "c": np.array(True)}
    assert "another rank" in undefined(of, feeds)
    assert not undefined(of, feeds | {"x": np.ones(2, F)})


@pytest.mark.newest  # older kernels end the process where they divide by 0
def test_texts_that_a_scan_reads_are_known_inside_of_it():
    of = model(
        "y = Scan<num_scan_inputs=1, body = b (string t) => (bool r) { z = Sub(d, d) w = Div(d, z) r = Equal(w, d) }>(x)",
        19, inputs="string[2] x, int64 d", outputs="bool[2] y",
    )  # fmt: skip
    assert "divided by 0" in undefined(of, {"x": np.array(["a", "b"], object), "d": np.array(1)})


@pytest.mark.newest  # older kernels end the process where they divide by 0
def test_values_of_what_is_computed_inside_of_graphs_count():
    body = (
        "y = If(c) <then_branch = t () => (int64[M] a) { w = Cast<to=7>(z) v = If(c) <"
        "then_branch = p () => (int64[M] d) { u = Neg(w) d = Div(x, u) }, else_branch = q () => (int64[M] e) { e = Neg(x) }"
        "> a = Neg(v) }, else_branch = e () => (int64[M] b) { b = Neg(x) }>"
    )
    of = model(body, 14, inputs="int64[2] x, bool c, int32[2] z", outputs="int64[N] y")
    fed = {"x": np.array([1, 2]), "c": np.array(True), "z": np.array([0, 1], np.int32)}
    assert "divided by 0" in undefined(of, fed)
    assert not undefined(of, {**fed, "z": np.ones(2, np.int32)})


@pytest.mark.parametrize(("trips", "goes_on", "known"), [(1, 1, True), (0, 1, False), (1, 0, False)])
def test_what_a_loop_computes_that_never_runs_is_not_known(trips, goes_on, known):
    """It may end the process, as a Scan of other sizes does, in the place of an If below its first version."""
    body = "y = Loop(n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool k, float[2] t) { k = Identity(c) t = Neg(s) }>"
    of = model(
        body, 13, inputs="float[2] x", outputs="float[2] y", constants=f"int64 n = {{{trips}}}, bool go = {{{goes_on}}}"
    )
    values = next(calls(of, {"x": np.ones(2, F)})).values
    assert (values.get("t") is not None) is known


def test_leaves_of_one_weight_each_are_told():
    feeds = {"x": np.ones((1, 1), F)}
    assert not undefined(model(f"y = {TREES.format(2)}", 13, outputs="float[A,B] y", **io(**feeds)), feeds)

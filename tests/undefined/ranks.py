"""How many axes the texts of operators ask of what they are given."""

from __future__ import annotations

from itertools import chain
from math import prod

from tests.node_calls import Call

VECTORS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,), "Attention": (6,), "CenterCropPad": (1,), "Col2Im": (1, 2),
    "Compress": (1,), "ConstantOfShape": (0,), "Conv": (2,), "ConvTranspose": (2,), "DeformConv": (3,), "Expand": (1,),
    "GroupNormalization": (1, 2), "InstanceNormalization": (1, 2), "MaxUnpool": (2,),
    "NegativeLogLikelihoodLoss": (2,), "OneHot": (2,), "Pad": (1, 3), "QLinearConv": (8,), "Reshape": (1,),
    "Resize": (1, 2, 3), "ReverseSequence": (1,), "RoiAlign": (2,), "STFT": (2,), "Slice": (1, 2, 3, 4),
    "SoftmaxCrossEntropyLoss": (2,), "Split": (1,), "TensorScatter": (2,), "Tile": (1,), "Upsample": (1,),
}  # fmt: skip
"""The inputs that are vectors; those of Resize at 10, which has no region, are the same."""

NUMBERS: dict[str, tuple[int, ...]] = {
    "BlackmanWindow": (0,), "Clip": (1, 2), "CumProd": (1,), "CumSum": (1,), "DFT": (1, 2), "Dropout": (1, 2),
    "HammingWindow": (0,), "HannWindow": (0,), "If": (0,), "Loop": (0, 1), "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4), "OneHot": (1,), "Pad": (2,), "STFT": (1, 3), "SequenceAt": (1,), "SequenceErase": (1,),
    "SequenceInsert": (2,), "TopK": (1,), "Trilu": (1,),
}  # fmt: skip
"""The inputs that are one number; whether that is a scalar or a vector of one, engines and exporters do not ask."""

_RECURRENT = {0: (3,), 4: (1,), 5: (3,)}

RANKS: dict[str, dict[int, tuple[int, ...]]] = {
    "AffineGrid": {0: (3,)}, "Attention": {0: (3, 4), 1: (3, 4), 2: (3, 4), 4: (4,), 5: (4,)}, "Col2Im": {0: (3,)},
    "DeformConv": {0: (4,), 1: (4,), 2: (4,), 4: (4,)}, "DepthToSpace": {0: (4,)}, "EyeLike": {0: (2,)},
    "GRU": _RECURRENT, "Gemm": {0: (2,), 1: (2,), 2: (0, 1, 2)}, "LSTM": _RECURRENT | {6: (3,)},
    "MaxRoiPool": {0: (4,), 1: (2,)}, "NonMaxSuppression": {0: (3,), 1: (3,)}, "RNN": _RECURRENT,
    "RoiAlign": {0: (4,), 1: (2,)}, "RotaryEmbedding": {0: (3, 4), 1: (2, 3), 2: (2, 3), 3: (2,)}, "STFT": {0: (3,)},
    "SpaceToDepth": {0: (4,)}, "TfIdfVectorizer": {0: (1, 2)}, "TreeEnsemble": {0: (2,)},
    "TreeEnsembleClassifier": {0: (2,)}, "TreeEnsembleRegressor": {0: (2,)},
}  # fmt: skip
"""The ranks of other inputs."""

RANKED = tuple(dict.fromkeys(chain(VECTORS, RANKS)))


def other_rank(call: Call) -> bool:
    """Whether an input has another rank than the text asks for."""
    op = call.node.op_type
    asked = dict.fromkeys(VECTORS.get(op, ()), (1,)) | RANKS.get(op, {})
    return any((shape := call.shape(at)) is not None and len(shape) not in ranks for at, ranks in asked.items())


def no_number(call: Call) -> bool:
    """Whether an input that is to be one number is none or many."""
    return any(shape is not None and prod(shape) != 1 for shape in map(call.shape, NUMBERS[call.node.op_type]))


def no_scalar(call: Call) -> bool:
    """Whether an input that is to be one number is a vector, or one of more axes."""
    return any(call.shape(at) not in (None, ()) for at in NUMBERS[call.node.op_type])

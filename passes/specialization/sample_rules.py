"""Where samples lie in what an operator makes of some, for all operators that compute each sample alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opshift.passes.simplification import dimensions
from opshift.passes.specialization import sample_layout as layout
from opshift.passes.specialization.batch_axes import Batched, Mixes, Where

Rule = Callable[[Batched], Sequence[Where]]
"""The axis of the samples in each output."""


def broadcast(call: Batched) -> Sequence[Where]:
    """Samples stand at one place from the right, where other operands have nothing of their own for each."""
    ranks = [len(call.dims(index)) if name else 0 for index, name in enumerate(call.proto.input)]
    places = {rank - axis for rank, axis in zip(ranks, call.lies, strict=True) if axis is not None}
    if len(places) != 1:
        raise Mixes("its inputs have the batch on different axes")
    place = places.pop()
    for index, (rank, axis) in enumerate(zip(ranks, call.lies, strict=True)):
        if axis is None and rank >= place and call.dims(index)[rank - place] != 1:
            call.share(index, rank - place)
    return [max(ranks) - place] * len(call.proto.output)


def same(call: Batched) -> Sequence[Where]:
    return [call.axis] * len(call.proto.output)


def first(call: Batched) -> Sequence[Where]:
    """Samples lie along the first axis, as the operator has it."""
    call.check_first()
    return [0] * len(call.proto.output)


def all_first(call: Batched) -> Sequence[Where]:
    """The same of all its inputs."""
    if set(call.lies) != {0}:
        raise Mixes("the batch is not on its first axis")
    return [0] * len(call.proto.output)


def quantize(call: Batched) -> Sequence[Where]:
    if len(call.dims(1)) > 1:
        raise Mixes("its scale has a fixed size on the batch axis")
    if len(call.dims(1)) and call.dims(1) != (1,) and call.axis_of("axis", 1) == call.axis:
        raise Mixes("its scale has a fixed size on the batch axis")
    return same(call)


def drop_out(call: Batched) -> Sequence[Where]:
    training = call.known_numbers(2) if call.input(2) else None
    if call.input(2) and (training is None or training.values != (0,)):
        raise Mixes("in training mode it draws numbers for the whole batch")
    return same(call)


def pool(call: Batched) -> Sequence[Where]:
    where = first(call)
    if not call.is_unused(1):
        call.check_alone()
        size = dimensions.product(call.dims()[1:])
        if size is None:
            raise Mixes(layout.COUNTING)
        call.samples.indices[call.outputs[1]] = size
    return where


def unpool(call: Batched) -> Sequence[Where]:
    """Indices of MaxPool are those of one sample after the other here, too, where samples are as large as there."""
    if call.lies[:2] != [0, 0] or any(axis is not None for axis in call.lies[2:]):
        raise Mixes("the batch is not on its first axis")
    known = call.known_numbers(2)
    sizes = call.shape_of(call.output) if not call.input(2) else known and known.values
    if not sizes or dimensions.product(sizes[1:]) != call.samples.indices.get(call.input(1)):
        raise Mixes(layout.COUNTING)
    if call.input(2) and sizes[0] != call.samples.size:
        if sizes[0] != call.samples.held:
            raise Mixes(layout.COUNTING)
        layout.state_sizes(call, 2, sizes)
    return [0]


def normalize(call: Batched) -> Sequence[Where]:
    training = call.attribute("training_mode", 0) or (call.opset < 14 and sum(map(bool, call.proto.output)) > 1)
    if training:
        raise Mixes("in training mode it takes the mean of the batch")
    return [first(call)[0]]


def behind(call: Batched) -> Sequence[Where]:
    """It computes along all axes from one on."""
    if call.axis >= call.axis_of("axis", -1):
        raise Mixes("it computes along the batch axis")
    return [call.axis] * len(call.proto.output)


def softmax(call: Batched) -> Sequence[Where]:
    if call.opset < 13:
        if call.axis >= call.axis_of("axis", 1):
            raise Mixes("it computes along the batch axis")
        return [call.axis]
    return [call.apart(call.axis_of("axis", -1))]


def cast_like(call: Batched) -> Sequence[Where]:
    """Of the second input the type alone counts."""
    return [call.lies[0]]


def along(default: int) -> Rule:
    """It computes along one axis, which an attribute names."""
    return lambda call: [call.apart(call.axis_of("axis", default))] * len(call.proto.output)


def cumulate(call: Batched) -> Sequence[Where]:
    axis = call.ints(1)
    if axis is None:
        raise Mixes("its axis is unknown")
    return [call.apart(*axis)]


def reduce(call: Batched) -> Sequence[Where]:
    single = call.op in ("ArgMax", "ArgMin")
    axes = [int(call.attribute("axis", 0))] if single else call.named_axes()
    rank = len(call.dims())
    if not axes:
        if call.attribute("noop_with_empty_axes", 0) and axes is not None:
            return [call.axis]
        raise Mixes("it reduces all axes, the batch axis included")
    call.apart(*axes)
    kept = call.attribute("keepdims", 1)
    return [call.axis - (0 if kept else sum(axis % rank < call.axis for axis in axes))]


def multiply(call: Batched) -> Sequence[Where]:
    ranks, (a, b) = (len(call.dims(0)), len(call.dims(1))), call.lies
    if min(ranks) < 2 and not (a is not None and b is None and ranks[1] == 1 and a < ranks[0] - 1):
        raise Mixes("it may sum over the batch axis")
    places = [None if axis is None else rank - axis for axis, rank in zip((a, b), ranks, strict=True)]
    if places[0] == 1 or places[1] == 2:
        raise Mixes("it sums over the batch axis")
    rank = max(ranks) if ranks[1] > 1 else ranks[0]
    if places[0] is not None and places[1] is not None:
        if places[0] != places[1] or places[0] < 3:
            raise Mixes("its inputs have the batch on different axes")
        return [rank - places[0]]
    index, place = (1, places[0]) if places[0] is not None else (0, places[1])
    assert place is not None, "one of them holds samples"
    if place > 2 and ranks[index] >= place and call.dims(index)[ranks[index] - place] != 1:
        call.share(index, ranks[index] - place)
    return [rank - place]


def gather_elements(call: Batched) -> Sequence[Where]:
    """Data and indices both hold samples, along an axis that is not the one it gathers along, or one is repeated."""
    place = next(axis for axis in call.lies if axis is not None)
    if call.axis_of("axis", 0) == place:
        raise Mixes("it computes along the batch axis")
    for index, axis in enumerate(call.lies):
        if axis is None:
            call.repeat(index, place)
        elif axis != place:
            raise Mixes("its inputs have the batch on different axes")
    return [place]


def of_matrices(call: Batched) -> Sequence[Where]:
    if call.axis != (1 if call.attribute("transA", 0) else 0):
        raise Mixes("it sums over the batch axis")
    if call.input(2) and len(call.dims(2)) == 2 and call.dims(2)[0] != 1:
        call.share(2, 0)
    return [0]


def recurrent(call: Batched) -> Sequence[Where]:
    if call.attribute("layout", 0) or call.lies[0] != 1:
        raise Mixes("the batch is not on its second axis")
    for index, axis in enumerate(call.lies[1:], 1):
        place = {4: 0, 5: 1, 6: 1}.get(index)
        if call.input(index) and axis is None and place is not None:
            call.repeat(index, place)
        elif axis != place and call.input(index):
            raise Mixes("its parameters depend on the batch")
    return [2, 1, 1][: len(call.proto.output)]


def attend(call: Batched) -> Sequence[Where]:
    if any(axis not in (0, None) for axis in call.lies) or None in call.lies[:3]:
        raise Mixes("the batch is not on its first axis")
    if call.input(6) and call.lies[6] is None:
        raise Mixes("its lengths are not one per sample")
    mask = call.lies[3] if call.input(3) else None
    if mask == 0 and len(call.dims(3)) != 4:
        raise Mixes("its mask has a fixed size on the batch axis")
    if call.input(3) and mask is None and len(call.dims(3)) == 4 and call.dims(3)[0] != 1:
        call.share(3, 0)
    return [0] * len(call.proto.output)


_ELEMENTWISE = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod
    Mul Or PRelu Pow Sub Sum Where Xor
"""
_UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Clip Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid
    HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
    Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu
"""
_OF_IMAGES = """
    AveragePool Conv ConvInteger ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool GlobalMaxPool
    GroupNormalization InstanceNormalization LRN LpPool QLinearConv SpaceToDepth
"""
_REDUCTIONS = """
    ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare
"""
RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE.split(), broadcast),
    **dict.fromkeys(_UNARY.split(), same),
    **dict.fromkeys(_OF_IMAGES.split(), first),
    **dict.fromkeys(_REDUCTIONS.split(), reduce),
    **dict.fromkeys(["DequantizeLinear", "QuantizeLinear"], quantize),
    **dict.fromkeys(["GRU", "LSTM", "RNN"], recurrent),
    **dict.fromkeys(["Hardmax", "LogSoftmax", "Softmax"], softmax),
    **dict.fromkeys(["LayerNormalization", "RMSNormalization"], behind),
    **dict.fromkeys(["LpNormalization", "TopK"], along(-1)),
    **dict.fromkeys(["Resize", "Upsample"], layout.resize),
    "Attention": attend,
    "BatchNormalization": normalize,
    "CastLike": cast_like,
    "Concat": layout.concatenate,
    "ConstantOfShape": layout.fill,
    "CumSum": cumulate,
    "Dropout": drop_out,
    "Expand": layout.expand,
    "Flatten": layout.flatten,
    "Gather": layout.gather,
    "Gemm": of_matrices,
    "GatherElements": gather_elements,
    "GatherND": layout.gather_by_number,
    "GridSample": all_first,
    "MatMul": multiply,
    "MaxPool": pool,
    "MaxUnpool": unpool,
    "OneHot": layout.one_hot,
    "Pad": layout.pad,
    "Reshape": layout.reshape,
    "Slice": layout.cut_slice,
    "Split": along(0),
    "Squeeze": layout.squeeze,
    "Tile": layout.tile,
    "Transpose": layout.transpose,
    "Unsqueeze": layout.unsqueeze,
}
"""What is known of an operator; of all others, it is refused."""

ONE_BY_ONE = frozenset(
    ["Attention", "ConstantOfShape", "GatherND", "GRU", "LSTM", "MaxUnpool", "RNN", "Resize", "Upsample"]
)
"""Operators that count samples; others do the same with each row, where a sample has several along the batch axis."""

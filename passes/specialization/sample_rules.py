"""Where samples lie in what an operator makes of some, for all operators that compute each sample alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opshift.passes.analysis.polynomial import Number, Poly
from opshift.passes.optimization import dimensions
from opshift.passes.specialization.samples import Batched, Mixes, Where

Rule = Callable[[Batched], Sequence[Where]]
"""The axis of the samples in each output."""


def broadcast(call: Batched) -> Sequence[Where]:
    """Samples stand at one place from the right, where other operands have nothing of their own for each."""
    ranks = [len(call.dims(index)) if name else 0 for index, name in enumerate(call.proto.input)]
    places = {rank - axis for rank, axis in zip(ranks, call.lies, strict=True) if axis is not None}
    if len(places) != 1:
        raise Mixes("samples lie along different axes of what it takes")
    place = places.pop()
    for index, (rank, axis) in enumerate(zip(ranks, call.lies, strict=True)):
        if axis is None and rank >= place and call.dims(index)[rank - place] != 1:
            raise Mixes("an operand has a size along the axis of the samples")
    return [max(ranks) - place] * len(call.proto.output)


def same(call: Batched) -> Sequence[Where]:
    return [call.axis] * len(call.proto.output)


def first(call: Batched) -> Sequence[Where]:
    """Samples lie along the first axis, as the operator has it."""
    if call.axis != 0:
        raise Mixes("samples do not lie along its first axis")
    return [0] * len(call.proto.output)


def all_first(call: Batched) -> Sequence[Where]:
    """The same of all its inputs."""
    if set(call.lies) != {0}:
        raise Mixes("samples do not lie along its first axis")
    return [0] * len(call.proto.output)


def quantized(call: Batched) -> Sequence[Where]:
    if call.input(1) and len(call.dims(1)) and call.dims(1) != (1,) and call.axis_of("axis", 1) == call.axis:
        raise Mixes("its scale has a size along the axis of the samples")
    return same(call)


def dropped_out(call: Batched) -> Sequence[Where]:
    training = call.known(2) if call.input(2) else None
    if call.input(2) and (training is None or training.values != (0,)):
        raise Mixes("in training it draws numbers for all samples")
    return same(call)


def pooled(call: Batched) -> Sequence[Where]:
    if not call.unused(1):
        raise Mixes("its indices count the elements of all samples")
    return first(call)


def normalized(call: Batched) -> Sequence[Where]:
    training = call.attribute("training_mode", 0) or (call.opset < 14 and sum(map(bool, call.proto.output)) > 1)
    if training:
        raise Mixes("in training it takes the mean of all samples")
    return [first(call)[0]]


def behind(call: Batched) -> Sequence[Where]:
    """It computes along all axes from one on."""
    if call.axis >= call.axis_of("axis", -1):
        raise Mixes("it computes along the axis of the samples")
    return [call.axis] * len(call.proto.output)


def softmax(call: Batched) -> Sequence[Where]:
    if call.opset < 13:
        if call.axis >= call.axis_of("axis", 1):
            raise Mixes("it computes along the axis of the samples")
        return [call.axis]
    return [call.apart(call.axis_of("axis", -1))]


def cast_like(call: Batched) -> Sequence[Where]:
    """Of the second input the type alone counts."""
    return [call.lies[0]]


def along(default: int) -> Rule:
    """It computes along one axis, which an attribute names."""
    return lambda call: [call.apart(call.axis_of("axis", default))] * len(call.proto.output)


def summed(call: Batched) -> Sequence[Where]:
    axis = call.ints(1)
    if axis is None:
        raise Mixes("the axis along which it computes is not known")
    return [call.apart(*axis)]


def reduced(call: Batched) -> Sequence[Where]:
    single = call.op in ("ArgMax", "ArgMin")
    axes = [int(call.attribute("axis", 0))] if single else call.named_axes()
    rank = len(call.dims())
    if not axes:
        if call.attribute("noop_with_empty_axes", 0) and axes is not None:
            return [call.axis]
        raise Mixes("it reduces all axes, that of the samples among them")
    call.apart(*axes)
    kept = call.attribute("keepdims", 1)
    return [call.axis - (0 if kept else sum(axis % rank < call.axis for axis in axes))]


def transposed(call: Batched) -> Sequence[Where]:
    rank = len(call.dims())
    perm = list(call.attribute("perm") or range(rank)[::-1])
    return [perm.index(call.axis)]


def flattened(call: Batched) -> Sequence[Where]:
    axis, given = call.axis_of("axis", 1, more=1), call.dims()
    if call.axis != 0 or axis == 0 or any(dim != 1 for dim in given[1:axis]):
        raise Mixes("it joins samples with other axes")
    return [0]


def squeezed(call: Batched) -> Sequence[Where]:
    axes, rank = call.named_axes(), len(call.dims())
    if axes is None:
        raise Mixes("the axes that it drops hang on sizes")
    call.apart(*axes)
    return [call.axis - sum(axis % rank < call.axis for axis in axes)]


def unsqueezed(call: Batched) -> Sequence[Where]:
    axes = call.named_axes()
    if axes is None:
        raise Mixes("the axes that it adds are not known")
    rank = len(call.dims()) + len(axes)
    added = {axis % rank for axis in axes}
    return [[axis for axis in range(rank) if axis not in added][call.axis]]


def joined(call: Batched) -> Sequence[Where]:
    axis, axes = call.axis_of("axis", 1), set(call.lies) - {None}
    if len(axes) != 1:
        raise Mixes("samples lie along different axes of what it takes")
    (where,) = axes
    if where is None or where == axis:
        raise Mixes("it joins along the axis of the samples")
    for index, lies in enumerate(call.lies):
        if lies is None:
            call.repeat(index, where)
    return [where]


def sliced(call: Batched) -> Sequence[Where]:
    """What is cut along the axis of the samples is all of it."""
    if call.opset < 10:
        starts, ends, axes = call.attribute("starts"), call.attribute("ends"), call.attribute("axes")
        steps = None
    else:
        starts, ends, axes, steps = (call.ints(index) for index in range(1, 5))
        if call.input(3) and axes is None:
            raise Mixes("the axes along which it cuts are not known")
    count = call.dims(1)[0] if axes is None and call.opset >= 10 else len(starts or ())
    axes = list(range(count)) if axes is None and isinstance(count, int) else axes
    if axes is None:
        raise Mixes("the axes along which it cuts are not known")
    rank = len(call.dims())
    for place, axis in enumerate(axes):
        whole = starts and ends and starts[place] == 0 and ends[place] >= 2**31 - 1
        if axis % rank == call.axis and not (whole and (not call.input(4) or (steps and steps[place] == 1))):
            raise Mixes("it cuts along the axis of the samples")
    return [call.axis]


def padded(call: Batched) -> Sequence[Where]:
    pads, rank = call.attribute("pads") if call.opset < 11 else call.ints(1), len(call.dims())
    axes = call.ints(3) if call.input(3) else list(range(rank))
    if pads is None or axes is None:
        raise Mixes("what it adds is not known")
    for place, axis in enumerate(axes):
        if axis % rank == call.axis and (pads[place] or pads[len(axes) + place]):
            raise Mixes("it pads the axis of the samples")
    return [call.axis]


def gathered(call: Batched) -> Sequence[Where]:
    axis = call.axis_of("axis", 0)
    if call.lies[1] is None:
        where = call.apart(axis)
        return [where if where < axis else where - 1 + len(call.dims(1))]
    if call.lies[0] is not None:
        raise Mixes("each sample picks of all samples")
    return [axis + call.lies[1]]


def multiplied(call: Batched) -> Sequence[Where]:
    ranks, (a, b) = (len(call.dims(0)), len(call.dims(1))), call.lies
    if min(ranks) < 2 and not (a is not None and b is None and ranks[1] == 1 and a < ranks[0] - 1):
        raise Mixes("it sums over the axis of the samples, or nobody knows")
    places = [None if axis is None else rank - axis for axis, rank in zip((a, b), ranks, strict=True)]
    if places[0] == 1 or places[1] == 2:
        raise Mixes("it sums over the axis of the samples")
    rank = max(ranks) if ranks[1] > 1 else ranks[0]
    if places[0] is not None and places[1] is not None:
        if places[0] != places[1] or places[0] < 3:
            raise Mixes("samples lie along different axes of what it takes")
        return [rank - places[0]]
    index, place = (1, places[0]) if places[0] is not None else (0, places[1])
    assert place is not None, "one of them holds samples"
    if place > 2 and ranks[index] >= place and call.dims(index)[ranks[index] - place] != 1:
        raise Mixes("an operand has a size along the axis of the samples")
    return [rank - place]


def of_matrices(call: Batched) -> Sequence[Where]:
    if call.axis != (1 if call.attribute("transA", 0) else 0):
        raise Mixes("it sums over the axis of the samples")
    if call.input(2) and len(call.dims(2)) == 2 and call.dims(2)[0] != 1:
        raise Mixes("an operand has a size along the axis of the samples")
    return [0]


def recurrent(call: Batched) -> Sequence[Where]:
    if call.attribute("layout", 0) or call.lies[0] != 1:
        raise Mixes("samples do not lie along its second axis")
    for index, axis in enumerate(call.lies[1:], 1):
        place = {4: 0, 5: 1, 6: 1}.get(index)
        if call.input(index) and axis is None and place is not None:
            call.repeat(index, place)
        elif axis != place and call.input(index):
            raise Mixes("its parameters hold samples")
    return [2, 1, 1][: len(call.proto.output)]


def one_hot(call: Batched) -> Sequence[Where]:
    axis = call.axis_of("axis", -1, more=1)
    return [call.axis if call.axis < axis else call.axis + 1]


def resized(call: Batched) -> Sequence[Where]:
    """Only what is not resized along the first axis; sizes are stated anew."""
    first(call)
    scales = call.attribute("scales") if call.op == "Upsample" and call.opset < 9 else None
    at = 1 if call.op == "Upsample" or call.opset < 11 else 2
    if scales is None and call.input(at) and (held := call.array(at)) is not None and held.size:
        scales = list(held)
    if (axes := call.attribute("axes")) is not None and all(axis % len(call.dims()) for axis in axes):
        return [0]
    if scales is not None and len(scales) == len(call.dims()) and scales[0] == 1:
        return [0]
    sizes = call.known(3)
    if scales is None and sizes is not None and sizes.values[0] == call.samples.size:
        return [0]
    if scales is None and sizes is not None and sizes.values[0] == call.samples.held and axes is None:
        if call.samples.target is None:
            raise Mixes("the sizes that it asks for have to be numbers")
        call.wanted[3] = numbers_of(sizes.values, 0, call.samples.target)
        return [0]
    raise Mixes("it may resize the axis of the samples")


def reshaped(call: Batched) -> Sequence[Where]:
    given, known = call.dims(), call.known(1)
    if known is None or (call.attribute("allowzero", 0) and 0 in known.values):
        raise Mixes("the shape that it asks for is not known")
    axis, size = call.axis, call.samples.size
    stated = [given[at] if number == 0 and at < len(given) else number for at, number in enumerate(known.values)]
    for place, number in enumerate(stated):
        if dimensions.product(stated[:place]) != dimensions.product(given[:axis]):
            continue
        meant = [*stated[:place], size, *stated[place + 1 :]]
        if number not in (size, -1, call.samples.held) or not _holds(meant, given):
            continue
        if number == call.samples.held:
            _state(call, list(meant), given, place)
        return [place]
    raise Mixes(f"the shape {[n if isinstance(n, int) else '?' for n in known.values]} has no place for the samples")


def _holds(meant: Sequence[Number], given: Sequence[Number]) -> bool:
    """Whether a shape, which may leave one size to what is left, is that of as many elements."""
    rest = dimensions.product([number for number in meant if number != -1])
    total = dimensions.product(given)
    if rest is None or total is None:
        return False
    return rest == total if -1 not in meant else dimensions.quotient_of(total, rest) is not None


def _state(call: Batched, meant: list[Number], given: Sequence[Number], place: int) -> None:
    """State a shape with another number of samples: sizes that are open are kept where they are, or follow."""
    target = call.samples.target
    size: Number = call.samples.size if target is None else target
    if -1 in meant:
        total = dimensions.product(given)
        rest = dimensions.product([number for number in meant if number != -1])
        left = None if total is None or rest is None else dimensions.quotient_of(total, rest)
        if left is None:
            raise Mixes("the shape that it asks for is not constant")
        meant[meant.index(-1)] = left
    meant[place] = size
    numbers = dimensions.stated(meant, [size if axis == call.axis else dim for axis, dim in enumerate(given)])
    if numbers is None:
        raise Mixes("the shape that it asks for is not constant")
    call.wanted[1] = numbers
    call.set("allowzero", None)


def expanded(call: Batched) -> Sequence[Where]:
    given, known = call.dims(), call.known(1)
    if known is None:
        raise Mixes("the shape that it asks for is not known")
    rank, wanted, size = max(len(given), len(known.values)), list(known.values), call.samples.size
    if call.lies[0] is None:
        return [place_of(wanted, size) + rank - len(wanted)]
    place = call.lies[0] - len(given) + len(wanted)
    if place >= 0 and wanted[place] not in (1, size):
        if wanted[place] != call.samples.held:
            raise Mixes("it repeats samples")
        call.wanted[1] = numbers_of(wanted, place, call.samples.target or 1)
    return [place + rank - len(wanted)]


def numbers_of(wanted: Sequence[Number], place: int, size: int) -> list[int]:
    """A shape that is constant, with another size at one place."""
    found = [number for number in wanted if isinstance(number, int)]
    if len(found) != len(wanted):
        raise Mixes("the shape that it asks for is not constant")
    found[place] = size
    return found


def filled(call: Batched) -> Sequence[Where]:
    known = call.known(0)
    if known is None:
        raise Mixes("the shape that it asks for is not known")
    return [place_of(known.values, call.samples.size)]


def place_of(wanted: Sequence[Number], size: Number) -> int:
    """Where a shape names the number of samples, and nothing else that hangs on it."""
    places = [at for at, number in enumerate(wanted) if number == size]
    if len(places) != 1 or any(_hangs(number, size) for at, number in enumerate(wanted) if at != places[0]):
        raise Mixes("the shape that it asks for joins samples with other axes")
    return places[0]


def _hangs(number: Number, size: Number) -> bool:
    name = size.symbol if isinstance(size, Poly) else None
    return isinstance(number, Poly) and any(name in names for names, _ in number.terms)


def tiled(call: Batched) -> Sequence[Where]:
    repeats = call.ints(1)
    if repeats is None or repeats[call.axis] != 1:
        raise Mixes("it repeats samples")
    return [call.axis]


def attended(call: Batched) -> Sequence[Where]:
    if any(axis not in (0, None) for axis in call.lies) or None in call.lies[:3]:
        raise Mixes("samples do not lie along its first axis")
    if call.input(6) and call.lies[6] is None:
        raise Mixes("its lengths are not given sample by sample")
    mask = call.lies[3] if call.input(3) else None
    if (call.input(3) and mask is None and len(call.dims(3)) == 4 and call.dims(3)[0] != 1) or (
        mask == 0 and len(call.dims(3)) != 4
    ):
        raise Mixes("its mask has a size along the axis of the samples")
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
    **dict.fromkeys(_REDUCTIONS.split(), reduced),
    **dict.fromkeys(["DequantizeLinear", "QuantizeLinear"], quantized),
    **dict.fromkeys(["GRU", "LSTM", "RNN"], recurrent),
    **dict.fromkeys(["Hardmax", "LogSoftmax", "Softmax"], softmax),
    **dict.fromkeys(["LayerNormalization", "RMSNormalization"], behind),
    **dict.fromkeys(["LpNormalization", "TopK"], along(-1)),
    **dict.fromkeys(["Resize", "Upsample"], resized),
    "Attention": attended,
    "BatchNormalization": normalized,
    "CastLike": cast_like,
    "Concat": joined,
    "ConstantOfShape": filled,
    "CumSum": summed,
    "Dropout": dropped_out,
    "Expand": expanded,
    "Flatten": flattened,
    "Gather": gathered,
    "Gemm": of_matrices,
    "GridSample": all_first,
    "MatMul": multiplied,
    "MaxPool": pooled,
    "OneHot": one_hot,
    "Pad": padded,
    "Reshape": reshaped,
    "Slice": sliced,
    "Split": along(0),
    "Squeeze": squeezed,
    "Tile": tiled,
    "Transpose": transposed,
    "Unsqueeze": unsqueezed,
}
"""What is known of an operator; of all others, it is refused."""

"""Whether an operator gives the shape that its definition gave: what it broadcasts less than the nodes did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opshift.passes.fusion.patterns import PatternCall, PatternTensor, Splat
from opshift.passes.model.types import Dim

Shape = Sequence[Dim] | None


def fits(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    """Whether the call's result is known to have the shape that the nodes gave it, and runtimes run it there."""
    if call.op[1] not in _OF_NOTHING and any(0 in shape for shape in (result, *shapes) if shape is not None):
        return False
    rule = _RULES.get(call.op[1])
    if rule is not None:
        return rule(call, shapes, result)
    return len(shapes) == 1 or all(shape is None for shape in shapes[1:]) or _alike(result, shapes[0])


def has_rule(call: PatternCall) -> bool:
    return call.op[1] in _RULES


def _alike(a: Shape, b: Shape) -> bool:
    """Whether two shapes are known to be the same: numbers or symbols."""
    return a is not None and b is not None and len(a) == len(b) and all(map(_same, a, b))


def _same(a: Dim, b: Dim) -> bool:
    return a is not None and a == b


def _last_axes(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    """Scale and bias have the shape of the axes that are normalized, but for leading ones."""
    x, axis = shapes[0], dict(call.attributes)["axis"]
    if x is None:
        return False
    for index, given in enumerate(call.inputs[1:], 1):
        shape = shapes[index]
        if isinstance(given, Splat):
            if not all(isinstance(dim, int) for dim in x[axis:]):
                return False
        elif shape is None or len(shape) > len(x) or not _alike(x[axis:], without_ones(shape, -axis)):
            return False
    return True


def without_ones(shape: Sequence[Dim], rank: int) -> Sequence[Dim]:
    """A shape without the leading ones that it has beyond a rank."""
    more = max(len(shape) - rank, 0)
    return shape[more:] if all(dim == 1 for dim in shape[:more]) else shape


def _per_channel(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    x = shapes[0]
    return x is not None and all(_alike(x[1:2], shape) for shape in shapes[1:])


def _groups(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    """As many groups as the call says, whatever was reshaped to what in between."""
    x = shapes[0]
    return _alike(result, x) and _per_channel(call, shapes, result)


def _onto_first(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    """The second operand is broadcast to the first, and not the other way round."""
    x, slope = shapes
    if x is None or slope is None or len(slope) > len(x):
        return False
    return all(b == 1 or _same(a, b) for a, b in zip(x[len(x) - len(slope) :], slope, strict=True))


def _onto_scores(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    """The heads of query, key and value are the same, and the mask is broadcast to the scores alone."""
    query, key, value, *masks = shapes
    if query is None or key is None or value is None or not len(query) == len(key) == len(value) == 4:
        return False
    alike = (
        all(_alike(query[:2], of[:2]) for of in (key, value)) and _same(query[3], key[3]) and _same(key[2], value[2])
    )
    scores = [*query[:3], key[2]]
    for mask in masks:
        if mask is None or not 2 <= len(mask) <= 4 or not _same(mask[-1], scores[-1]):
            return False
        alike &= all(m == 1 or _same(s, m) for s, m in zip(scores[4 - len(mask) :], mask, strict=True))
    return alike


def _onto_product(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    """The factors are matrices, and what is added is broadcast to their product."""
    a, b, *added = shapes
    if a is None or b is None or len(a) != 2 or len(b) != 2 or result is None or len(result) != 2:
        return False
    turned = dict(call.attributes)
    product = [a[turned.get("transA", 0)], b[1 - turned.get("transB", 0)]]
    return all(_onto_first(call, (product, shape), result) for shape in added)


def _by_position(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    """The angles are those of each position of each batch or of all, or a table of them for as many positions."""
    x, cosine, sine = shapes
    if x is None or len(x) != 4 or cosine is None or not _alike(cosine, sine) or not isinstance(x[3], int):
        return False
    if len(cosine) == 2:
        return isinstance(x[0], int) and isinstance(x[2], int) and cosine == [x[2], x[3] // 2]
    return _alike(cosine[1:], [x[2], x[3] // 2]) and (cosine[0] == 1 or _same(cosine[0], x[0]))


def _vectors(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    """What is as large as the result comes first; vectors along its last axis follow."""
    wide = [shape for given, shape in _tensors(call, shapes) if len(given.dims or ()) > 1]
    rows = [shape for given, shape in _tensors(call, shapes) if len(given.dims or ()) == 1]
    if not result or not all(_alike(result, shape) for shape in wide):
        return False
    return all(_alike(result[-1:], shape) for shape in rows)


def _tensors(call: PatternCall, shapes: Sequence[Shape]) -> list[tuple[PatternTensor, Shape]]:
    return [
        (given, shape) for given, shape in zip(call.inputs, shapes, strict=True) if isinstance(given, PatternTensor)
    ]


def _rows(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    """The same of two or three axes, as the kernels ask."""
    return result is not None and len(result) in (2, 3) and _vectors(call, shapes, result)


def _of_rank(call: PatternCall, shapes: Sequence[Shape], result: Shape) -> bool:
    """Both operands have as many axes as their product."""
    return result is not None and all(shape is not None and len(shape) == len(result) for shape in shapes)


_ALONE = """
Abs Acosh Asinh Atanh Ceil Celu Cosh Elu Erf Gelu HardSigmoid HardSwish LeakyRelu Mish Neg QuickGelu Reciprocal Relu
Round Selu Shrink Sigmoid Sign Sinh Softplus Softsign Swish Tan ThresholdedRelu
"""
_REDUCED = """
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
"""
_OF_NOTHING = frozenset((_ALONE + _REDUCED).split())
"""What runtimes run of data without an element: what computes each by itself, and reductions, which have values there.
Not all run each other operator: InstanceNormalization, GroupNormalization and LayerNormalization fail."""

_RULES: dict[str, Callable[[PatternCall, Sequence[Shape], Shape], bool]] = {
    "LayerNormalization": _last_axes,
    "RMSNormalization": _last_axes,
    "InstanceNormalization": _per_channel,
    "GroupNormalization": _groups,
    "Attention": _onto_scores,
    "RotaryEmbedding": _by_position,
    "PRelu": _onto_first,
    "Gemm": _onto_product,
    "BiasGelu": _vectors,
    "FastGelu": _vectors,
    "FusedMatMul": _of_rank,
    "SkipLayerNormalization": _rows,
    "SkipSimplifiedLayerNormalization": _rows,
}

"""How operators on numbers are read: arithmetic, reductions, bounds, choices."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan, prod
from operator import add, mul, sub
from typing import Any

from opshift.passes.fusion.keys import NUMBER, ONES, TENSOR, Key
from opshift.passes.fusion.reader import FLOATS, PER_AXIS, Reader, Rule
from opshift.passes.fusion.reading.layout import elementwise, product_of_sizes
from opshift.passes.fusion.terms import clip, mean
from opshift.passes.model import numbers
from opshift.passes.model.messages import NodeProto, TensorProto
from opshift.passes.model.traversal import integer

_COUNTS = frozenset((TensorProto.INT64, TensorProto.INT32))


def _same(reader: Reader, node: NodeProto) -> int:
    return reader.term(node.input[0])


def _dropout(reader: Reader, node: NodeProto) -> int | None:
    """Dropout that drops nothing."""
    training = node.input[2] if len(node.input) > 2 else ""
    if reader.opset < 7 or (training and not _holds(reader.terms.keys[reader.term(training)], 0)):
        return None
    return reader.term(node.input[0])


def _cast(reader: Reader, node: NodeProto) -> int | None:
    """Widths of floats differ in rounding alone, and so do those of the integers that count."""
    return _convert(reader, node, integer(node, "to", 0))


def _cast_like(reader: Reader, node: NodeProto) -> int | None:
    return _convert(reader, node, reader.elem_type(node.input[1]))


def _convert(reader: Reader, node: NodeProto, to: int) -> int | None:
    elem_type, term = reader.elem_type(node.input[0]), reader.term(node.input[0])
    if elem_type in FLOATS or elem_type not in _COUNTS:
        return term if to and (elem_type == to or (elem_type in FLOATS and to in FLOATS)) else None
    known = to in _COUNTS or (to in FLOATS and reader.terms.keys[term].kind in (NUMBER, ONES))
    return term if known else None


def _compute(compute: Callable[[float, float], float]) -> Callable[[Reader, NodeProto], int | None]:
    """Arithmetic on two constants, of which the one of higher rank gives the shape."""

    def rule(reader: Reader, node: NodeProto) -> int | None:
        keys = [reader.terms.keys[reader.term(name)] for name in node.input]
        if len(keys) != 2 or any(key.kind not in (NUMBER, ONES) for key in keys):
            return None
        value = compute(keys[0].value, keys[1].value)
        rank = max(key.rank if key.kind == ONES else 0 for key in keys)
        return reader.terms.of(ONES, value, rank) if rank else reader.terms.number(value)

    return rule


def _ratio(a: float, b: float) -> float:
    return a / b if b else nan


def sum_of_terms(reader: Reader, node: NodeProto) -> int | None:
    if (known := _sums(reader, node)) is not None:
        return known
    if not _arithmetic(reader, node):
        return None
    found, *more = reader.operands(node.input)
    for term in more:
        found = reader.terms.add(found, term)
    return found


def _subtract(reader: Reader, node: NodeProto) -> int | None:
    if (known := _differences(reader, node)) is not None:
        return known
    if not _arithmetic(reader, node):
        return None
    a, b = reader.operands(node.input)
    return reader.terms.add(a, b, -1.0)


def _multiply(reader: Reader, node: NodeProto) -> int | None:
    if (known := _products(reader, node)) is not None:
        return known
    if reader.elem_type(node.input[0]) in _COUNTS:
        return _sizes(reader, node)
    return reader.terms.mul(*reader.operands(node.input)) if _arithmetic(reader, node) else None


def _divide(reader: Reader, node: NodeProto) -> int | None:
    floats = reader.elem_type(node.input[0]) in FLOATS
    if (known := (_ratios if floats else _quotients)(reader, node)) is not None:
        return known
    if not floats or reader.opset < 7:
        return None
    a, b = reader.operands(node.input)
    return None if reader.terms.value(b) == 0 else reader.terms.mul(a, reader.terms.power(b, -1.0))


_sums, _differences, _products = _compute(add), _compute(sub), _compute(mul)
_ratios, _quotients = _compute(_ratio), _compute(lambda a, b: float(int(_ratio(a, b))) if b else nan)


_sizes = elementwise(product_of_sizes)


def _arithmetic(reader: Reader, node: NodeProto) -> bool:
    """Whether operands are broadcast as numpy does, and hold numbers that can be computed with."""
    return reader.opset >= 7 and all(reader.elem_type(name) in FLOATS for name in node.input[:1])


def _power_rule(exponent: float) -> Rule:
    def rule(reader: Reader, node: NodeProto) -> int | None:
        if not _floats(reader, node):
            return None
        term = reader.term(node.input[0])
        key = reader.terms.keys[term]
        if key.kind == ONES and key.value > 0:
            return reader.terms.of(ONES, key.value**exponent, key.rank)
        return reader.terms.power(term, exponent)

    return rule


def _raise(reader: Reader, node: NodeProto) -> int | None:
    exponent = reader.terms.value(reader.operand(node.input[1], node.input[0])) if _floats(reader, node) else None
    if exponent not in (2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 1.0):
        return None
    return reader.terms.power(reader.term(node.input[0]), exponent)


def _floats(reader: Reader, node: NodeProto) -> bool:
    return reader.elem_type(node.input[0]) in FLOATS


def _negate(reader: Reader, node: NodeProto) -> int | None:
    return reader.terms.times(reader.term(node.input[0]), -1.0) if _floats(reader, node) else None


def _reduce(make: Callable[[Reader, Key, int, NodeProto], int]) -> Rule:
    def rule(reader: Reader, node: NodeProto) -> int | None:
        axes, keepdims = reader.axes(node), integer(node, "keepdims", 1)
        if not axes or not _floats(reader, node) or keepdims not in (0, 1):
            return None
        made = make(reader, (("axes", axes),), reader.term(node.input[0]), node)
        return made if keepdims else reader.terms.op("Squeeze", (("axes", axes),), made)

    return rule


def _total(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    made = reader.terms.op("Total", axes, x)
    shape, ((_, listed),) = reader.scope.shape(node.input[0]), axes
    if shape is not None and len(shape) >= -listed[0] and made not in reader.terms.sizes:
        sizes = [shape[axis] for axis in listed]
        if all(isinstance(size, int) for size in sizes):
            reader.terms.sizes[made] = prod(size for size in sizes if isinstance(size, int))
    return made


def _mean(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return mean(reader.terms, axes, x)


def _squares(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return _total(reader, axes, reader.terms.power(x, 2.0), node)


def _norm(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return reader.terms.power(_squares(reader, axes, x, node), 0.5)


def _absolutes(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return _total(reader, axes, reader.terms.op("Abs", (), x), node)


def _logarithm(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return reader.terms.op("Log", (), _total(reader, axes, x, node))


def _largest(reader: Reader, axes: Key, x: int, node: NodeProto) -> int:
    return reader.terms.op("Largest", axes, x)


def _normal(reader: Reader, node: NodeProto) -> int | None:
    """InstanceNormalization with a scale of ones and a bias of zeros is (x - mean) / sqrt(variance + epsilon)."""
    terms, rank = reader.terms, reader.rank(node.input[0])
    scale, bias = (terms.keys[reader.term(name)] for name in node.input[1:3])
    if rank is None or rank < 3 or not _holds(scale, 1.0) or not _holds(bias, 0.0):
        return None
    axes, x = (("axes", tuple(range(2 - rank, 0))),), reader.term(node.input[0])
    epsilon = numbers.as_written(next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5))
    deviation = terms.power(terms.add(terms.op("Variance", axes, x), terms.number(epsilon)), -0.5)
    return terms.mul(terms.op("Centered", axes, x), deviation)


def _holds(key: Any, value: float) -> bool:
    """Whether a constant holds one value everywhere."""
    return (key.kind == ONES and key.value == value) or (key.kind == TENSOR and set(key.values) == {value})


def _global_mean(reader: Reader, node: NodeProto) -> int | None:
    rank = reader.rank(node.input[0])
    if rank is None or rank < 3:
        return None
    return mean(reader.terms, (("axes", tuple(range(2 - rank, 0))),), reader.term(node.input[0]))


def _clip(reader: Reader, node: NodeProto) -> int | None:
    """Read a Clip; below opset 11 its bounds are attributes."""
    if not _floats(reader, node):
        return None
    given = {a.name: a.f for a in node.attribute}
    bounds: list[float | None] = [given.get("min", -inf), given.get("max", inf)]
    for index, name in enumerate(node.input[1:3]):
        if name:
            key = reader.terms.keys[reader.term(name)]
            bounds[index] = key.value if key.kind in (NUMBER, ONES) else None
    low, high = bounds
    if low is None or high is None or not low <= high:
        return None
    return clip(reader.terms, reader.term(node.input[0]), low, high)


def _extreme(largest: bool) -> Rule:
    def rule(reader: Reader, node: NodeProto) -> int | None:
        if len(node.input) != 2 or not _floats(reader, node) or reader.opset < 8:
            return None
        a, b = reader.operands(node.input)
        for x, bound in ((a, b), (b, a)):
            value = reader.terms.value(bound)
            if value is not None:
                return clip(reader.terms, x, *((value, inf) if largest else (-inf, value)))
        return reader.terms.op("Max" if largest else "Min", (), *sorted((a, b)))

    return rule


def _rectify(reader: Reader, node: NodeProto) -> int | None:
    return clip(reader.terms, reader.term(node.input[0]), 0.0, inf) if _floats(reader, node) else None


def _hard(reader: Reader, node: NodeProto) -> int | None:
    """HardSigmoid is alpha * x + beta between 0 and 1, HardSwish x times that of x / 6 + 0.5."""
    if not _floats(reader, node):
        return None
    terms, x, given = reader.terms, reader.term(node.input[0]), {a.name: a.f for a in node.attribute}
    swish = node.op_type == "HardSwish"
    slope = 1 / 6 if swish else numbers.as_written(given.get("alpha", 0.2))
    bent = clip(terms, terms.add(terms.times(x, slope), terms.number(given.get("beta", 0.5))), 0.0, 1.0)
    return terms.mul(x, bent) if swish else bent


def _swap(op: str) -> Rule:
    def rule(reader: Reader, node: NodeProto) -> int:
        a, b = reader.operands(node.input)
        return reader.terms.op(op, (), b, a)

    return rule


def _comparison(reader: Reader, node: NodeProto) -> int:
    return reader.terms.op(node.op_type, (), *reader.operands(node.input))


def _softmax(reader: Reader, node: NodeProto) -> int | None:
    rank = reader.rank(node.input[0])
    axis = integer(node, "axis", -1 if reader.opset >= PER_AXIS else 1)
    if axis >= 0:
        if rank is None:
            return None
        axis -= rank
    if reader.opset < PER_AXIS and axis != -1:
        return None
    return reader.terms.op("Softmax", (("axes", (axis,)),), reader.term(node.input[0]))


RULES: dict[str, Rule] = {
    "Identity": _same,
    "Dropout": _dropout,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Constant": Reader.constant,
    "Add": sum_of_terms,
    "Sum": sum_of_terms,
    "Sub": _subtract,
    "Mul": _multiply,
    "Div": _divide,
    "Neg": _negate,
    "Reciprocal": _power_rule(-1.0),
    "Sqrt": _power_rule(0.5),
    "Pow": _raise,
    "ReduceMean": _reduce(_mean),
    "ReduceSum": _reduce(_total),
    "ReduceSumSquare": _reduce(_squares),
    "ReduceL2": _reduce(_norm),
    "ReduceL1": _reduce(_absolutes),
    "ReduceLogSum": _reduce(_logarithm),
    "ReduceMax": _reduce(_largest),
    "GlobalAveragePool": _global_mean,
    "InstanceNormalization": _normal,
    "Clip": _clip,
    "Max": _extreme(largest=True),
    "Min": _extreme(largest=False),
    "Relu": _rectify,
    "HardSigmoid": _hard,
    "HardSwish": _hard,
    "Less": _comparison,
    "Greater": _swap("Less"),
    "Softmax": _softmax,
}

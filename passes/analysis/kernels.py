"""What operators compute of constants, in numpy: exactly what every engine computes, or `close`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from math import prod
from typing import Any

from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import ELEMENTS

Array = Any
Attributes = Mapping[str, Any]
Rule = Callable[[Sequence[Array], Attributes, int], Array | list[Array] | None]
Function = str | Callable[..., Array]
"""A function of numpy, by its name as numpy is imported at the first use, or one of ours."""


SINCE = 7  # the opset from which on operators broadcast as numpy does


def compute(
    op: str, opset: int, inputs: Sequence[Array], attributes: Attributes, *, most: int | None = None
) -> tuple[list[Array], bool] | None:
    """The outputs of an operator of the default domain, and whether every engine computes the same; None if unknown.

    An omitted input is None. `opset` is at least `SINCE`. Nothing is computed that has more than `most` elements.
    """
    rule = _ANY.get(op)
    exact = True
    if rule is None and op in _ARITHMETIC:
        rule, exact = _ARITHMETIC[op], op not in _ROUNDED or inputs[0].dtype.kind in "iub"
    if rule is None:
        return None
    with np.errstate(all="ignore"):
        try:
            if most is not None and _size(op, [held for held in inputs if held is not None]) > most:
                return None
            found = rule(inputs, attributes, opset)
        except (
            ValueError,
            TypeError,
            AttributeError,
            IndexError,
            OverflowError,
            MemoryError,
            ZeroDivisionError,
        ):  # what is not valid stays as it is
            return None
    if found is None:
        return None
    outputs = found if isinstance(found, list) else [found]
    return [np.asarray(value) for value in outputs], exact


def can_compute(op: str) -> bool:
    """Whether `compute` knows the operator at all."""
    return op in _ANY or op in _ARITHMETIC


_BROADCASTING = frozenset(["Add", "Div", "Equal", "Less", "Mod", "Mul", "Sub", "Where"])


def _size(op: str, given: Sequence[Array]) -> float:
    """How many elements a result has, or fewer."""
    first, *others = given
    if op == "ConstantOfShape":
        return float(prod(first.ravel().tolist()))
    if op == "Range":
        start, limit, delta = (float(value.item()) for value in given)
        return (limit - start) / delta
    if op == "Gather":
        return float(first.size // min(first.shape) * others[0].size if first.size else 0)
    if op == "Concat":
        return float(sum(value.size for value in given))
    if op == "Expand":
        return _together([first.shape, others[0].ravel().tolist()])
    return float(_together([value.shape for value in given]) if op in _BROADCASTING else first.size)


def _together(shapes: Sequence[Sequence[int]]) -> int:
    """How many elements tensors of these shapes have, once each has the other's dimensions."""
    aligned = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return prod(0 if 0 in dims else max(dims) for dims in aligned)


def _wide(value: Array) -> Array:
    """In a type that is computed in: what is narrower than float32 is rounded once, at the end."""
    if value.dtype.kind == "V" and value.dtype.name != "bfloat16":
        raise TypeError(value.dtype)
    return value.astype(np.float32) if value.dtype.kind in "fV" and value.dtype.itemsize < 4 else value


def _apply(function: Function, *operands: Array, **options: Any) -> Array:
    return np.asarray((getattr(np, function) if isinstance(function, str) else function)(*operands, **options))


def _elementwise(function: Function) -> Rule:
    """In the type of the first input; the floats that have no arithmetic of their own are rounded afterwards."""

    def rule(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
        kind = inputs[0].dtype
        if kind.kind in "bOUS":
            return None
        return _apply(function, *map(_wide, inputs)).astype(kind)

    return rule


def _in_double(function: Function) -> Rule:
    """Computed in double and rounded once: at least as precise as what any engine computes."""

    def rule(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
        if inputs[0].dtype.kind != "f":
            return None
        return _apply(function, *(value.astype(np.float64) for value in inputs)).astype(inputs[0].dtype)

    return rule


def _comparison(function: Function) -> Rule:
    def rule(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
        return _apply(function, *map(_wide, inputs)).astype(bool)

    return rule


def _axes(inputs: Sequence[Array], attributes: Attributes, position: int = 1) -> list[int] | None:
    if len(inputs) > position and inputs[position] is not None:
        return [int(axis) for axis in inputs[position].reshape(-1)]
    return list(attributes["axes"]) if "axes" in attributes else None


def _cast(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    import onnx.helper

    value, to = inputs[0], int(attributes["to"])
    if value.dtype.kind in "OUS" or to == TensorProto.STRING or attributes.get("saturate", 1) != 1:
        return None
    plain = to in ELEMENTS and (ELEMENTS[to].code or to == TensorProto.BFLOAT16)
    if not plain or value.dtype.kind not in "fiub":
        return None  # float8 and narrower have rules of their own
    kind = onnx.helper.tensor_dtype_to_np_dtype(to)
    if value.dtype.kind == "f" and kind.kind in "iu":
        cut = np.trunc(value.astype(np.float64))
        limits = np.iinfo(kind)
        if not (np.isfinite(cut).all() and (cut >= limits.min).all() and (cut < float(limits.max)).all()):
            return None  # what becomes of it is nobody's promise
    if kind.kind not in "fiub":  # bfloat16, by way of float32, which has to hold the value itself
        wide = value.astype(np.float32)
        narrow = value.dtype.kind == "f" and value.dtype.itemsize <= 4
        return wide.astype(kind) if narrow or (value.dtype.kind != "f" and (wide == value).all()) else None
    return value.astype(kind)


def _reshape(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    value, shape = inputs[0], [int(dim) for dim in inputs[1]]
    if not attributes.get("allowzero", 0):
        shape = [value.shape[i] if dim == 0 else dim for i, dim in enumerate(shape)]
    return value.reshape(shape)


def _squeeze(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    axes = _axes(inputs, attributes)
    if axes == []:
        return None  # engines disagree
    return np.squeeze(inputs[0], axis=None if axes is None else tuple(axes))


def _unsqueeze(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    axes = _axes(inputs, attributes)
    return None if axes is None else np.expand_dims(inputs[0], tuple(axes))


def _slice(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    value = inputs[0]
    if opset < 10:
        starts, ends = list(attributes["starts"]), list(attributes["ends"])
        axes, steps = list(attributes.get("axes", range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = inputs[1].tolist(), inputs[2].tolist()
        axes = _axes(inputs, {}, 3) or list(range(len(starts)))
        steps = inputs[4].tolist() if len(inputs) > 4 and inputs[4] is not None else [1] * len(starts)
    cut: list[slice] = [slice(None)] * value.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cut[axis] = bounded(start, end, step, value.shape[axis])
    return value[tuple(cut)]


def bounded(start: int, end: int, step: int, size: int) -> slice:
    """What Slice takes of an axis, as Python writes it."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (at + size if at < 0 else at for at in (start, end))
    start, end = min(max(start, 0), size if step > 0 else size - 1), min(max(end, low), high)
    return slice(start, None if end < 0 else end, step)


def _gather(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    axis = int(attributes.get("axis", 0))
    size = inputs[0].shape[axis]
    if not ((inputs[1] >= -size) & (inputs[1] < size)).all():
        return None
    return np.take(inputs[0], inputs[1], axis=axis)


def _gather_elements(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    value, places = inputs
    axis = int(attributes.get("axis", 0)) % value.ndim
    if not ((places >= 0) & (places < value.shape[axis])).all():
        return None
    whole = [slice(None) if at == axis else slice(size) for at, size in enumerate(places.shape)]
    return np.take_along_axis(value[tuple(whole)], places, axis)


def _concat(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    return np.concatenate(inputs, axis=int(attributes["axis"]))


def _split(inputs: Sequence[Array], attributes: Attributes, opset: int) -> list[Array] | None:
    sizes = inputs[1].tolist() if len(inputs) > 1 and inputs[1] is not None else attributes.get("split")
    axis = int(attributes.get("axis", 0))
    if not sizes or sum(sizes) != inputs[0].shape[axis]:
        return None
    return list(np.split(inputs[0], np.cumsum(sizes)[:-1], axis=axis))


def _transpose(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    return np.transpose(inputs[0], attributes.get("perm"))


def _expand(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    return np.broadcast_to(inputs[0], np.broadcast_shapes(inputs[0].shape, tuple(inputs[1].tolist())))


def _constant_of_shape(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    import onnx.numpy_helper

    held = attributes.get("value")
    value = np.zeros(1, np.float32) if held is None else onnx.numpy_helper.to_array(held)
    return np.broadcast_to(value.reshape(()), tuple(inputs[0].tolist()))


def _range(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    start, limit, delta = (value.item() for value in inputs)
    return np.arange(start, limit, delta).astype(inputs[0].dtype) if inputs[0].dtype.kind in "iu" and delta else None


def _shape(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    dims = list(inputs[0].shape)
    return np.asarray(dims[attributes.get("start", 0) : attributes.get("end", len(dims))], np.int64)


def _integer_division(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return a / b
    if not b.all():
        raise ValueError("division by zero")
    quotient = a // b
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0)))  # towards zero


def _mod(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    a, b = inputs
    if a.dtype.kind not in "iu" or not b.all():
        return None
    return np.fmod(a, b) if attributes.get("fmod", 0) else np.mod(a, b)


def _reduction(function: str) -> Rule:
    def rule(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
        axes, value = _axes(inputs, attributes), inputs[0]
        if not axes and attributes.get("noop_with_empty_axes", 0):
            return None
        if value.dtype.kind not in "iu":
            return None
        keep = bool(attributes.get("keepdims", 1))
        return _apply(function, value, axis=tuple(axes) if axes else None, keepdims=keep).astype(value.dtype)

    return rule


def _unique(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    """The values alone, without where they are."""
    found, first = np.unique(inputs[0], return_index=True, axis=attributes.get("axis"))
    return found if attributes.get("sorted", 1) else np.take(found, np.argsort(first), attributes.get("axis", 0))


def _trilu(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    k = int(inputs[1].reshape(-1)[0]) if len(inputs) > 1 and inputs[1] is not None else 0
    return (np.triu if attributes.get("upper", 1) else np.tril)(inputs[0], k)


def _power(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    a, b = inputs
    if a.dtype.kind in "iub" or b.dtype.kind in "OUS":
        return None
    return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


def _matmul(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    a, b = inputs
    if a.dtype.kind == "f" and a.dtype.itemsize <= 8:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)
    return None


def _gemm(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    a, b, *rest = inputs
    if a.dtype.kind != "f" or a.dtype.itemsize > 8:
        return None
    left = (a.T if attributes.get("transA", 0) else a).astype(np.float64)
    right = (b.T if attributes.get("transB", 0) else b).astype(np.float64)
    found = attributes.get("alpha", 1.0) * np.matmul(left, right)
    if rest and rest[0] is not None:
        found = found + attributes.get("beta", 1.0) * rest[0].astype(np.float64)
    return found.astype(a.dtype)


def _fold(function: str) -> Rule:
    """Of any number of inputs, from the left."""

    def rule(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
        if inputs[0].dtype.kind == "f" and not _engines_agree(inputs):
            return None
        found = inputs[0]
        for other in inputs[1:]:
            found = _apply(function, found, other).astype(found.dtype)
        return found if found.dtype.kind in "iuf" else None

    return rule


def _engines_agree(inputs: Sequence[Array]) -> bool:
    """Whether no NaN is among the values to compare and no zeros of both signs, on which engines differ."""
    values = np.concatenate([value.reshape(-1) for value in inputs])
    signs = np.signbit(values[values == 0])
    return not np.isnan(values).any() and bool(signs.all() or not signs.any())


# What moves values, compares them, or is computed in integers.
_ANY: dict[str, Rule] = {
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Flatten": lambda i, a, o: (
        i[0].reshape(int(np.prod(i[0].shape[: a.get("axis", 1)], dtype=np.int64)), -1)
        if i[0].size and a.get("axis", 1) >= 0
        else None
    ),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Mod": _mod,
    "NonZero": lambda i, a, o: np.stack(np.nonzero(i[0])).astype(np.int64) if i[0].ndim else None,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": lambda i, a, o: np.asarray(i[0].size, np.int64),
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": lambda i, a, o: np.tile(i[0], i[1].tolist()) if len(i[1]) == i[0].ndim else None,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unique": _unique,
    "Unsqueeze": _unsqueeze,
    "Where": lambda i, a, o: np.where(*i),
    "ReduceMax": _reduction("max"),
    "ReduceMin": _reduction("min"),
    "ReduceProd": _reduction("prod"),
    "ReduceSum": _reduction("sum"),
    "And": _comparison("logical_and"),
    "Or": _comparison("logical_or"),
    "Xor": _comparison("logical_xor"),
    "Not": _comparison("logical_not"),
    "Equal": _comparison("equal"),
    "Greater": _comparison("greater"),
    "GreaterOrEqual": _comparison("greater_equal"),
    "Less": _comparison("less"),
    "LessOrEqual": _comparison("less_equal"),
    "IsNaN": _comparison("isnan"),
}

# Arithmetic that IEEE 754 rounds correctly, and below it what engines round each in its own way.
_ROUNDED = frozenset(["Cos", "Exp", "Gemm", "Log", "MatMul", "Pow", "Sigmoid", "Sin", "Tanh"])
_ARITHMETIC: dict[str, Rule] = {
    "Abs": _elementwise("abs"),
    "Add": _elementwise("add"),
    "Ceil": _elementwise("ceil"),
    "Div": _elementwise(_integer_division),
    "Floor": _elementwise("floor"),
    "Max": _fold("maximum"),
    "Min": _fold("minimum"),
    "Mul": _elementwise("multiply"),
    "Neg": _elementwise("negative"),
    "Reciprocal": _elementwise(lambda x: np.ones_like(x) / x),
    "Round": _elementwise("rint"),
    "Sqrt": _elementwise("sqrt"),
    "Sub": _elementwise("subtract"),
    "Cos": _in_double("cos"),
    "Exp": _in_double("exp"),
    "Log": _in_double("log"),
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Pow": _power,
    "Sigmoid": _in_double(lambda x: 1 / (1 + np.exp(-x))),
    "Sin": _in_double("sin"),
    "Tanh": _in_double("tanh"),
}

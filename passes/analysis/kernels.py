"""Compute operators on constants in numpy, for constant folding: exactly, or within rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from math import prod
from typing import Any

from opshift.passes.analysis import moving
from opshift.passes.analysis.moving import Array, Attributes
from opshift.passes.model import installed
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import ELEMENTS

Rule = Callable[[Sequence[Array], Attributes, int], Array | list[Array] | None]
Function = str | Callable[..., Array]
"""A function, or the name of one in numpy, which is imported at the first use."""


SINCE = 7  # the opset from which on operators broadcast as numpy does


def compute(
    op: str, opset: int, inputs: Sequence[Array], attributes: Attributes, *, most: int | None = None
) -> tuple[list[Array], bool] | None:
    """Compute the outputs of an operator of the default domain; also returns whether every engine computes the same.

    Returns None for other operators, invalid inputs, and results of more than `most` elements. An omitted input is
    None; `opset` is at least `SINCE`.
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
        ):  # an invalid node stays as it is
            return None
    if found is None:
        return None
    outputs = found if isinstance(found, list) else [found]
    return [np.asarray(value) for value in outputs], exact


def can_compute(op: str) -> bool:
    """Tell whether `compute` knows the operator."""
    return op in _ANY or op in _ARITHMETIC


_BROADCASTING = frozenset(["Add", "Div", "Equal", "Less", "Mod", "Mul", "Sub", "Where"])


def _size(op: str, given: Sequence[Array]) -> float:
    """Count the elements of a result; perhaps fewer."""
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
    """Count the elements of the shape that these shapes broadcast to."""
    aligned = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return prod(0 if 0 in dims else max(dims) for dims in aligned)


def _wide(value: Array) -> Array:
    """Cast narrow floats to float32 before computing; the result is rounded once, at the end."""
    if value.dtype.kind == "V" and value.dtype.name != "bfloat16":
        raise TypeError(value.dtype)
    return value.astype(np.float32) if value.dtype.kind in "fV" and value.dtype.itemsize < 4 else value


def _apply(function: Function, *operands: Array, **options: Any) -> Array:
    return np.asarray((getattr(np, function) if isinstance(function, str) else function)(*operands, **options))


def _elementwise(function: Function) -> Rule:
    """Make a rule that computes in the type of the first input; narrow floats are computed in float32 and rounded."""

    def rule(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
        kind = inputs[0].dtype
        if kind.kind in "bOUS":
            return None
        return _apply(function, *map(_wide, inputs)).astype(kind)

    return rule


def _in_double(function: Function) -> Rule:
    """Make a rule that computes in double and rounds once, which is at least as precise as any engine."""

    def rule(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
        if inputs[0].dtype.kind != "f":
            return None
        return _apply(function, *(value.astype(np.float64) for value in inputs)).astype(inputs[0].dtype)

    return rule


def _comparison(function: Function) -> Rule:
    def rule(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
        return _apply(function, *map(_wide, inputs)).astype(bool)

    return rule


def _cast(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    import onnx.helper

    value, to = inputs[0], int(attributes["to"])
    if value.dtype.kind in "OUS" or to == TensorProto.STRING or attributes.get("saturate", 1) != 1:
        return None
    plain = to in ELEMENTS and (ELEMENTS[to].code or to == TensorProto.BFLOAT16)
    if not plain or value.dtype.kind not in "fiub":
        return None  # float8 and narrower have rules of their own
    installed.check_type(to)
    kind = onnx.helper.tensor_dtype_to_np_dtype(to)
    if value.dtype.kind == "f" and kind.kind in "iu":
        cut = np.trunc(value.astype(np.float64))
        limits = np.iinfo(kind)
        if not (np.isfinite(cut).all() and (cut >= limits.min).all() and (cut < float(limits.max)).all()):
            return None  # ONNX does not define the result
    if kind.kind not in "fiub":  # bfloat16, by way of float32, which has to hold the value itself
        wide = value.astype(np.float32)
        narrow = value.dtype.kind == "f" and value.dtype.itemsize <= 4
        return wide.astype(kind) if narrow or (value.dtype.kind != "f" and (wide == value).all()) else None
    return value.astype(kind)


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
        axes, value = moving.axes_of(inputs, attributes), inputs[0]
        if not axes and attributes.get("noop_with_empty_axes", 0):
            return None
        if value.dtype.kind not in "iu":
            return None
        how = {"axis": tuple(axes) if axes else None, "keepdims": bool(attributes.get("keepdims", 1))}
        if function in ("sum", "prod") and not _fits(_apply(function, value.astype(np.float64), **how), value.dtype):
            return None  # engines overflow differently
        return _apply(function, value, **how).astype(value.dtype)

    return rule


def _fits(wide: Array, kind: Any) -> bool:
    """Tell whether whole numbers in float64 surely fit an integer type."""
    limits = np.iinfo(kind)
    return bool((wide >= limits.min).all() and (wide <= limits.max).all() and (wide < 2.0**63).all())


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
    """Make a rule that combines any number of inputs, from the left."""

    def rule(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
        if inputs[0].dtype.kind == "f" and not _engines_agree(inputs):
            return None
        found = inputs[0]
        for other in inputs[1:]:
            found = _apply(function, found, other).astype(found.dtype)
        return found if found.dtype.kind in "iuf" else None

    return rule


def _engines_agree(inputs: Sequence[Array]) -> bool:
    """Tell whether engines compute the same maximum: they differ on NaN, and on zeros of both signs."""
    values = np.concatenate([value.reshape(-1) for value in inputs])
    signs = np.signbit(values[values == 0])
    return not np.isnan(values).any() and bool(signs.all() or not signs.any())


# Operators that move values, compare them, or compute in integers.
_ANY: dict[str, Rule] = {
    "Cast": _cast,
    "Concat": moving.concat,
    "ConstantOfShape": moving.constant_of_shape,
    "Expand": moving.expand,
    "Flatten": lambda i, a, o: (
        i[0].reshape(int(np.prod(i[0].shape[: a.get("axis", 1)], dtype=np.int64)), -1)
        if i[0].size and a.get("axis", 1) >= 0
        else None
    ),
    "Gather": moving.gather,
    "GatherElements": moving.gather_elements,
    "Mod": _mod,
    "NonZero": lambda i, a, o: np.stack(np.nonzero(i[0])).astype(np.int64) if i[0].ndim else None,
    "Range": moving.count_up,
    "Reshape": moving.reshape,
    "Shape": moving.dims_of,
    "Size": lambda i, a, o: np.asarray(i[0].size, np.int64),
    "Slice": moving.cut_out,
    "Split": moving.split,
    "Squeeze": moving.squeeze,
    "Tile": lambda i, a, o: np.tile(i[0], i[1].tolist()) if len(i[1]) == i[0].ndim else None,
    "Transpose": moving.transpose,
    "Trilu": moving.trilu,
    "Unique": moving.unique,
    "Unsqueeze": moving.unsqueeze,
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

# Arithmetic that IEEE 754 rounds correctly; and operators that each engine rounds in its own way (`_ROUNDED`).
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

"""Equal, Greater, Less and the two with `OrEqual`, which took fewer and fewer types the older they are."""

from __future__ import annotations

from typing import Any

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.broadcast import LEGACY
from opshift.passes.operators.shared.carriers import SMALL_INTEGERS
from opshift.passes.operators.shared.recipes import carrier_casts
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
INTEGERS = (*SMALL_INTEGERS, T.INT32, T.UINT32, T.INT64, T.UINT64)
INT64_MAX = 2**63 - 1


@says("Compared types that older Equal does not accept: cast integers of 8 and 16 bits, used Less for others")
def equal_numbers(node: Node) -> Replacement:
    elem_type, build = node.elem_type(), node.build
    if elem_type in (T.BOOL, T.INT32, T.INT64):
        return None
    if elem_type in SMALL_INTEGERS or elem_type == T.UINT32:
        return carrier_casts({**dict.fromkeys(SMALL_INTEGERS, T.INT32), T.UINT32: T.INT64})(node)
    a, b = node.inputs
    equal = build.Not(build.Or(build.Less(a, b), build.Greater(a, b)))
    if elem_type != T.UINT64:
        numbers = [_is_number(build, operand, elem_type) for operand in (a, b)]
        equal = build.And(equal, build.And(*numbers))
    return str(equal)


def _is_number(build: Builder, x: str, elem_type: int) -> str:
    """A NaN is neither less than one nor greater than zero."""
    return str(build.Or(build.Less(x, build.constant(1, elem_type)), build.Greater(x, build.constant(0, elem_type))))


@says("Compared strings by their indices in a list of distinct strings")
def equal_strings(node: Node) -> Replacement:
    if node.elem_type() != T.STRING:
        return None
    if (found := _find_among(node)) is not None:
        return found
    build = node.build
    flat = build.Concat(*(build.Reshape(name, [-1]) for name in node.inputs), axis=0)
    places = build.emit("Unique", [flat], outputs=3)[2]
    split = build.Reshape(build.Size(node.input(0)), [1])
    parts = [build.Slice(places, [0], split), build.Slice(places, split, [INT64_MAX])]
    return str(build.Equal(*(_shape_like(node, *pair) for pair in zip(parts, node.inputs, strict=True))))


def _find_among(node: Node) -> str | None:
    """Single strings beside a list of known ones, as TfIdfVectorizer counts them; None for other operands."""
    build, known = node.build, node.scope.array(node.input(1))
    dims = node.scope.shape(node.input(0))
    if known is None or known.ndim != 1 or not known.size or dims is None or not dims or dims[-1] != 1:
        return None
    words = [word.decode() if isinstance(word, bytes) else str(word) for word in known.tolist()]
    if len(set(words)) < len(words):
        return None
    rows, may_be_empty = build.Reshape(node.input(0), [-1, 1]), not all(isinstance(dim, int) and dim for dim in dims)
    if may_be_empty:  # onnxruntime's TfIdfVectorizer takes no empty batch: one row is added, and dropped
        rows = build.Concat(rows, build.constant([[""]], T.STRING), axis=0)
    counts = build.TfIdfVectorizer(
        rows, mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0,
        ngram_counts=[0], ngram_indexes=list(range(len(words))), pool_strings=words,
    )  # fmt: skip
    counts = build.Slice(counts, [0], [-1], [0]) if may_be_empty else counts
    found = build.Greater(counts, build.constant(0.0, T.FLOAT))
    if len(dims) == 2:
        return str(found)
    outer = build.Slice(build.Shape(node.input(0)), [0], [len(dims) - 1])
    return str(build.Reshape(found, build.Concat(outer, [len(words)], axis=0)))


def _shape_like(node: Node, value: str, like: str) -> str:
    dims = node.scope.shape(like)
    filled = dims is not None and all(isinstance(dim, int) and dim > 0 for dim in dims)
    return str(node.build.Reshape(value, node.build.Shape(like), allowzero=None if filled else 1))


@says("Compared 32-bit integers as double, and 64-bit integers as two halves")
def ordered_integers(node: Node) -> Replacement:
    elem_type, build, op = node.elem_type(), node.build, node.op_type
    if any(_survives_rounding(node.scope.array(name)) for name in node.inputs):
        return carrier_casts(dict.fromkeys(INTEGERS, T.DOUBLE))(node)
    if elem_type not in (T.INT64, T.UINT64):
        return carrier_casts(dict.fromkeys((*SMALL_INTEGERS, T.INT32, T.UINT32), T.DOUBLE))(node)
    half = build.constant(2**32, elem_type)
    high = [build.Div(name, half) for name in node.inputs]  # rounds towards zero; the rest has the sign of the whole
    low = [build.Sub(n, build.Mul(h, half)) for n, h in zip(node.inputs, high, strict=True)]
    (high_a, high_b), (low_a, low_b) = ([build.Cast(part, to=T.DOUBLE) for part in parts] for parts in (high, low))
    tied = build.Equal(*(build.Cast(part, to=T.INT64) for part in high))
    return str(build.Or(build.emit(op, [high_a, high_b]), build.And(tied, build.emit(op, [low_a, low_b]))))


def _survives_rounding(held: Any) -> bool:
    """Whether each number is on the same side of a constant before and after all are rounded to double."""
    return held is not None and held.dtype.kind in "iu" and bool(((held > -(2**53)) & (held < 2**53)).all())


@says("Replaced GreaterOrEqual by Or(Greater, Equal), LessOrEqual by Or(Less, Equal)")
def ordered_or_equal(node: Node) -> str:
    build, operands = node.build, node.inputs
    strict = build.emit(node.op_type.removesuffix("OrEqual"), operands)
    return str(build.Or(strict, build.Equal(*operands)))


@says("Replaced Less by Greater with its inputs exchanged")
def greater_of_exchanged(node: Node) -> str:
    """MNN 3.6 computes Less of floats wrongly, and Greater rightly."""
    a, b = node.inputs
    return str(node.build.Greater(b, a))


ORDER = ["Greater", "Less"]
OR_EQUAL = ["GreaterOrEqual", "LessOrEqual"]

changed(["Equal", *ORDER], 7, LEGACY)
changed(ORDER, 9, Pair(down=ordered_integers))
changed("Equal", 11, Pair(down=equal_numbers))
changed("Equal", 19, Pair(down=equal_strings))
changed(OR_EQUAL, 12, Pair(down=ordered_or_equal))
changed(OR_EQUAL, 16, Pair(down=carrier_casts({T.BFLOAT16: T.FLOAT})))
defined("Less", greater_of_exchanged, opset=9)

"""Which operators are looked for, by what calls of them a value suggests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from opshift.functions import OPENVINO, has_definition
from opshift.passes.fusion.patterns import ROTARY, Axes, PatternCall, PatternTensor, Splat
from opshift.passes.fusion.quantization.integer_operators import FLOATS, KINDS, anchors
from opshift.passes.model import schemas
from opshift.passes.model.messages import AttributeProto, TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import Dim

NEGATIVE_AXES = 11
"""The opset from which on axes may be negative."""

PER_CHANNEL = 21
"""The opset from which on GroupNormalization has a scale and a bias for each channel."""


@dataclass(frozen=True)
class Clues:
    """What a value tells about the call that it may be: its type, and the axes that occur in its term."""

    opset: int
    elem_type: int
    shape: Callable[[], Sequence[Dim] | None]
    """What tells the dimensions, which not every operator hangs on."""
    axes: Mapping[str, Sequence[Axes]]

    @cached_property
    def rank(self) -> int | None:
        dims = self.shape()
        return None if dims is None else len(dims)

    @property
    def size(self) -> Dim:
        """The last dimension."""
        dims = self.shape()
        return dims[-1] if dims else None

    def spell_axes(self, axes: Axes, dropped: int = 0) -> Axes | None:
        """Write axes as not negative. Without a rank they stay, from opset 11 on. The result lacks `dropped` axes.

        Over negative axes without elements, onnxruntime 1.31 sums up nothing instead of 0.
        """
        if self.rank is None:
            return axes if self.opset >= NEGATIVE_AXES else None
        return tuple(axis + self.rank + dropped for axis in axes)

    def over(self, *operators: str) -> list[Axes]:
        return list(dict.fromkeys(axes for op in operators for axes in self.axes.get(op, ())))


Suggest = Callable[[Op, Clues], Iterator[PatternCall]]


def elementwise(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """One input, with each text that an attribute may hold, and floats as they are by default or as they come."""
    x = PatternTensor(clues.elem_type, ("a", "b", "c"))
    schema = schemas.schema(*op, clues.opset)
    floats = tuple(n for n, a in schema.attributes.items() if a.type == AttributeProto.FLOAT) if schema else ()
    for texts in _CHOICES.get(op, ((),)):
        yield PatternCall(op, clues.opset, (x,), texts)
        if floats:
            yield PatternCall(op, clues.opset, (x,), texts, floats)


def two_operands(op: Op, clues: Clues) -> Iterator[PatternCall]:
    a, b = (PatternTensor(clues.elem_type, (f"{n}1", f"{n}2", f"{n}3")) for n in "ab")
    yield PatternCall(op, clues.opset, (a, b))
    schema = schemas.schema(*op, clues.opset)
    floats = tuple(n for n, a in schema.attributes.items() if a.type == AttributeProto.FLOAT) if schema else ()
    if floats:
        yield PatternCall(op, clues.opset, (a, b), (), floats)


def _trailing(axes: Axes) -> bool:
    return bool(axes) and axes == tuple(range(axes[0], 0))


def layer(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """The last axes are normalized, with a scale, with or without a bias."""
    for axes in filter(_trailing, clues.over("Variance")):
        x, scale = _normalize(clues.elem_type, axes)
        ones = Splat(clues.elem_type, scale.dims, 1.0)
        for inputs in ((x, scale, scale), (x, scale), (x, ones)):
            yield PatternCall(op, clues.opset, inputs, (("axis", axes[0]),), ("epsilon",))


def root_mean_square(op: Op, clues: Clues) -> Iterator[PatternCall]:
    for axes in filter(_trailing, clues.over("Mean")):
        x, scale = _normalize(clues.elem_type, axes)
        for inputs in ((x, scale), (x, Splat(clues.elem_type, scale.dims, 1.0))):
            yield PatternCall(op, clues.opset, inputs, (("axis", axes[0]),), ("epsilon",))


def _normalize(elem_type: int, axes: Axes) -> tuple[PatternTensor, PatternTensor]:
    dims = tuple(f"d{axis}" for axis in axes)
    return PatternTensor(elem_type, ("a", *dims)), PatternTensor(elem_type, dims)


def behind_channels(op: Op, clues: Clues) -> Iterator[PatternCall]:
    if clues.rank is None or clues.rank < 3:
        return
    x = PatternTensor(clues.elem_type, ("n", "c", *(f"d{axis}" for axis in range(2, clues.rank))))
    if tuple(range(2 - clues.rank, 0)) in clues.over("Variance"):
        yield PatternCall(
            op,
            clues.opset,
            (x, PatternTensor(clues.elem_type, ("c",)), PatternTensor(clues.elem_type, ("c",))),
            (),
            ("epsilon",),
        )


def groups(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """Channels are normalized in groups; scale and bias are per channel from opset 21 on."""
    if clues.rank is None or clues.rank < 3 or clues.opset < PER_CHANNEL or (-1,) not in clues.over("Variance"):
        return
    x = PatternTensor(clues.elem_type, ("n", "c", *(f"d{axis}" for axis in range(2, clues.rank))))
    scale = PatternTensor(clues.elem_type, ("c",))
    wide = (
        (("stash_type", clues.elem_type),) if clues.elem_type == TensorProto.DOUBLE else ()
    )  # else it is computed in float
    for (number,) in clues.over("groups"):
        yield PatternCall(op, clues.opset, (x, scale, scale), (("num_groups", number), *wide), ("epsilon",))


def mean_and_variance(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """The body that runtimes and `onnx.checker` read adds a float, so that no other type is valid."""
    if clues.rank is not None and clues.elem_type == TensorProto.FLOAT:
        for axes in (found for found in clues.over("Variance") if -found[0] <= clues.rank):
            x = PatternTensor(clues.elem_type, tuple(f"d{axis}" for axis in range(clues.rank)))
            yield PatternCall(op, clues.opset, (x,), (("axes", tuple(axis + clues.rank for axis in axes)),))


def one_axis(op: Op, clues: Clues) -> Iterator[PatternCall]:
    for axes in clues.over("Total", "Softmax"):
        if len(axes) == 1:
            x = PatternTensor(clues.elem_type, tuple(f"d{axis}" for axis in range(max(clues.rank or 0, -axes[0]))))
            for texts in _CHOICES.get(op, ((),)):
                if clues.opset >= NEGATIVE_AXES:
                    yield PatternCall(op, clues.opset, (x,), (("axis", axes[0]), *texts))
                elif spelled := clues.spell_axes(axes):
                    yield PatternCall(op, clues.opset, (x,), (("axis", spelled[0]), *texts))


def reduction(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """Axes are an input from opset 18 on."""
    schema = schemas.schema(*op, clues.opset)
    for axes in clues.over("Total", "Mean", "Largest"):
        for keepdims in (1, 0):
            dropped = 0 if keepdims else len(axes)
            x = PatternTensor(
                clues.elem_type, tuple(f"d{axis}" for axis in range(max((clues.rank or 0) + dropped, -axes[0])))
            )
            spelled = clues.spell_axes(axes, dropped)
            if spelled is None or (any(axis < 0 for axis in spelled) and clues.rank is not None):
                continue
            if schema is not None and "axes" not in schema.attributes:
                yield PatternCall(op, clues.opset, (x, spelled), (("keepdims", keepdims),))
            else:
                yield PatternCall(op, clues.opset, (x,), (("axes", spelled), ("keepdims", keepdims)))


def attention(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """Heads apart from each other, with a mask of truth values, one that is added, or none."""
    if clues.rank != 4 or not clues.axes.get("Softmax"):
        return
    query, key, value = (
        PatternTensor(clues.elem_type, ("b", "h", *rest)) for rest in (("s", "d"), ("t", "d"), ("t", "e"))
    )
    scores = ("b", "h", "s", "t")
    for mask in (PatternTensor(TensorProto.BOOL, scores), PatternTensor(clues.elem_type, scores), None):
        inputs = (query, key, value) if mask is None else (query, key, value, mask)
        yield PatternCall(op, clues.opset, inputs, (), ("scale",))


def rotary(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """The halves of each head are rotated."""
    if clues.rank == 4 and isinstance(clues.size, int):
        cache = PatternTensor(clues.elem_type, ("b", "s", clues.size // 2))
        yield PatternCall(op, clues.opset, (PatternTensor(clues.elem_type, ("b", "h", "s", clues.size)), cache, cache))


def openvino(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """OpenVINO's operators take their axes as an input."""
    for axes in clues.over("Total"):
        for keep in (1, 0) if op[1] == "ReduceL1" else (1,):
            rank = max((clues.rank or 0) + (0 if keep else len(axes)), -axes[0])
            spelled = clues.spell_axes(axes, 0 if keep else len(axes))
            if spelled is None:
                continue
            inputs = (PatternTensor(clues.elem_type, tuple(f"d{axis}" for axis in range(rank))), spelled)
            if op[1] == "ReduceL1":
                yield PatternCall(op, clues.opset, inputs, (("keep_dims", keep),))
                continue
            for mode in ("add", "max"):
                yield PatternCall(op, clues.opset, inputs, (("eps_mode", mode),), ("eps",))


def global_pooling(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """All axes behind the channels are reduced to one element."""
    if clues.rank is not None and clues.rank >= 3:
        x = PatternTensor(clues.elem_type, ("n", "c", *(f"d{axis}" for axis in range(2, clues.rank))))
        for p in (1, 2) if op[1] == "GlobalLpPool" else (0,):
            yield PatternCall(op, clues.opset, (x,), (("p", p),) if p else ())


def products(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """The product of two matrices, either of which may be transposed, alone or with something added."""
    if clues.rank != 2:
        return
    added = PatternTensor(clues.elem_type, ("m", "n"))
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        first = PatternTensor(clues.elem_type, ("k", "m") if a else ("m", "k"))
        second = PatternTensor(clues.elem_type, ("n", "k") if b else ("k", "n"))
        turned = tuple((name, 1) for name, of in (("transA", a), ("transB", b)) if of)
        for marks in ((), ("alpha",), ("beta",), ("alpha", "beta")):
            yield PatternCall(op, clues.opset, (first, second, added), turned, marks)
        if clues.opset >= _WITHOUT_ADDED:
            for marks in ((), ("alpha",)):
                yield PatternCall(op, clues.opset, (first, second), turned, marks)


def transposed_products(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """The product of two operands of a rank, times a number, transposed, or both."""
    if clues.rank is None or clues.rank < 2:
        return
    batch = tuple(f"d{axis}" for axis in range(clues.rank - 2))
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        first = PatternTensor(clues.elem_type, (*batch, *(("k", "m") if a else ("m", "k"))))
        second = PatternTensor(clues.elem_type, (*batch, *(("n", "k") if b else ("k", "n"))))
        turned = tuple((name, 1) for name, of in (("transA", a), ("transB", b)) if of)
        yield PatternCall(op, clues.opset, (first, second), turned, ("alpha",))
        if turned:
            yield PatternCall(op, clues.opset, (first, second), turned)


def bias_first(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """A vector is added first, which one of these operators may lack."""
    x, bias = PatternTensor(clues.elem_type, ("a", "b", "c")), PatternTensor(clues.elem_type, ("c",))
    yield PatternCall(op, clues.opset, (x, bias))
    if op[1] == "FastGelu":
        yield PatternCall(op, clues.opset, (x,))


def normalized_sums(op: Op, clues: Clues) -> Iterator[PatternCall]:
    """The sum of two values, and of a vector or none, is normalized over its last axis; nothing else reads it."""
    x, vector = PatternTensor(clues.elem_type, ("a", "b", "c")), PatternTensor(clues.elem_type, ("c",))
    shifts = (vector, None) if op[1] == "SkipLayerNormalization" else ()
    for behind in ((*shifts[:1], vector), (*shifts[1:], vector), shifts[:1], ()):
        for given, marks in (
            ((), ("epsilon",)),
            ((("epsilon", 1e-5),), ()),
        ):  # a default that its own operator leaves out
            yield PatternCall(op, clues.opset, (x, x, vector, *behind), given, marks)


_WITHOUT_ADDED = 11  # the opset from which on Gemm may add nothing

_CHOICES: dict[Op, Sequence[tuple[tuple[str, Any], ...]]] = {
    ("", "Gelu"): ((("approximate", "none"),), (("approximate", "tanh"),)),
    ("", "LpNormalization"): ((("p", 1),), (("p", 2),)),
}

_SUMMING = ("ReduceSum", "ReduceL1", "ReduceSumSquare", "ReduceL2")
_DEVIATION = frozenset(("Sqrt", "Pow"))
_AVERAGING = frozenset(("ReduceMean", "ReduceSum", "ReduceSumSquare", "GlobalAveragePool", "InstanceNormalization"))


@dataclass(frozen=True)
class Family:
    """How an operator is looked for: the calls of it, and the operators one of which every form of it needs.

    Without any, every node may make its result.
    """

    suggest: Suggest
    anchors: frozenset[str]
    inputs: int = 1
    """How many tensors it takes at most that are not constant."""
    also: frozenset[str] = frozenset()
    """Operators one of which each form needs besides, if there are any."""
    scaled: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Float attributes that are a factor of an input: what the one is multiplied by, the other may be instead."""


def _family(suggest: Suggest, *anchors: str, inputs: int = 1) -> Family:
    return Family(suggest, frozenset(anchors), inputs)


FAMILIES: dict[Op, Family] = {
    ("", "Attention"): Family(
        attention, frozenset(("Softmax", "Exp")), 4, frozenset(("MatMul", "Einsum")), {"scale": (0, 1)}
    ),
    ROTARY: _family(rotary, "Neg", "Split", inputs=3),
    ("", "LayerNormalization"): Family(layer, _DEVIATION, 3, _AVERAGING),
    ("", "RMSNormalization"): Family(root_mean_square, _DEVIATION, 2, _AVERAGING),
    ("", "GroupNormalization"): Family(groups, _DEVIATION | {"InstanceNormalization"}, 3, _AVERAGING),
    ("", "InstanceNormalization"): Family(behind_channels, _DEVIATION, 3, _AVERAGING),
    ("", "MeanVarianceNormalization"): Family(mean_and_variance, _DEVIATION, 1, _AVERAGING),
    ("", "LpNormalization"): _family(one_axis, "ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2"),
    ("", "Gelu"): _family(elementwise, "Erf", "Tanh"),
    ("", "Swish"): _family(elementwise, "Sigmoid", "Exp"),
    ("", "HardSwish"): _family(elementwise, "HardSigmoid", "Clip", "Relu", "Min"),
    ("", "HardSigmoid"): _family(elementwise, "Clip", "Relu", "Min"),
    ("", "Mish"): _family(elementwise, "Tanh"),
    ("", "Celu"): _family(elementwise, "Elu"),
    ("", "Selu"): _family(elementwise, "Elu", "Exp"),
    ("", "Elu"): _family(elementwise, "Exp"),
    ("", "Softplus"): _family(elementwise, "Log"),
    ("", "Softsign"): _family(elementwise, "Abs"),
    ("", "Sigmoid"): _family(elementwise, "Exp"),
    ("", "LeakyRelu"): _family(elementwise, "Where"),
    ("", "Shrink"): _family(elementwise, "Where"),
    ("", "PRelu"): _family(two_operands, "Where", inputs=2),
    ("", "ReduceL2"): _family(reduction, "ReduceSum", "ReduceSumSquare"),
    ("", "ReduceL1"): _family(reduction, "Abs"),
    ("", "ReduceLogSum"): _family(reduction, "Log"),
    ("", "ReduceSumSquare"): _family(reduction, "ReduceSum"),
    ("", "Softmax"): _family(one_axis, "Exp"),
    ("", "LogSoftmax"): _family(one_axis, "Log"),
}
"""The operators that exporters emit as one node, in the order in which a value is compared with them."""


_ELEMENTWISE = "Abs Acosh Asinh Atanh Ceil Cosh Erf Neg Reciprocal Relu Round Sign Sinh Tan ThresholdedRelu"

BY_NAME: dict[Op, Family] = {
    **{("", op): _family(elementwise) for op in _ELEMENTWISE.split()},
    ("", "Gemm"): _family(products, "MatMul", inputs=3),
    ("", "GlobalAveragePool"): _family(global_pooling, "ReduceMean", "ReduceSum"),
    ("", "GlobalLpPool"): _family(global_pooling, "ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2"),
    ("", "GlobalMaxPool"): _family(global_pooling, "ReduceMax"),
    ("", "ReduceLogSumExp"): _family(reduction, "Log"),
    ("", "ReduceMin"): _family(reduction, "ReduceMax"),
    ("", "SwiGLU"): _family(two_operands, "Sigmoid", "Exp", "Swish", inputs=2),
    (MICROSOFT, "BiasGelu"): _family(bias_first, "Erf", "Gelu", inputs=2),
    (MICROSOFT, "FastGelu"): _family(bias_first, "Tanh", "Gelu", inputs=2),
    (MICROSOFT, "FusedMatMul"): _family(transposed_products, "MatMul", inputs=2),
    (MICROSOFT, "Gelu"): _family(elementwise, "Erf", "Gelu"),
    (MICROSOFT, "QuickGelu"): _family(elementwise, "Sigmoid", "Swish"),
    (MICROSOFT, "SkipLayerNormalization"): _family(normalized_sums, *_DEVIATION, "LayerNormalization", inputs=5),
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): _family(
        normalized_sums, *_DEVIATION, "RMSNormalization", inputs=4
    ),
    **{(OPENVINO, op): _family(openvino, *_SUMMING) for op in ("NormalizeL2", "ReduceL1")},
}
"""The others that can be recognised, when asked for: those that exporters do not write, or write out on purpose."""

QUANTIZED: dict[Op, Family] = {op: _family(lambda op, clues: iter(()), *anchors(op)) for op in (*KINDS, *FLOATS)}
"""Operators on integers, found between DequantizeLinear and QuantizeLinear (`integer_operators.py`) when asked for."""

UNRUN: dict[Op, range] = {("", "Swish"): range(25, 27)}
"""The opsets that onnxruntime 1.31 reads without a kernel or body for an operator, which comes in there only by name.

It runs the body of Swish at opset 24 alone, and reads no opset above 26.
"""


def family(op: Op) -> Family | None:
    """How an operator is looked for, also one that is only looked for by name; None where nobody knows how."""
    if op in QUANTIZED:
        return QUANTIZED[op]
    found = FAMILIES.get(op) or BY_NAME.get(op)
    return found if found is not None and (op[0] != OPENVINO or has_definition(*op)) else None

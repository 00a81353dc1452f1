"""One layer each, drawn at random: its attributes, and the values that it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FLOATS, INTEGERS = ("float32",), ("int32", "int64")


class Unfit(Exception):
    """No value fits, or what was drawn does not."""


class Draw:
    """A network on its way: what has been made, and what it is fed."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.parameters: list[Any] = []
        self.feeds: list[Any] = []
        self.made: list[Any] = []
        self.layers = 0
        self.rounded: set[int] = set()  # ids of nodes whose values may be rounded: no jumps behind them

    # --- numbers

    def one(self, of: Sequence[Any]) -> Any:
        return of[int(self.rng.integers(len(of)))]

    def number(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def numbers(self, count: int, low: int, high: int) -> list[int]:
        return [self.number(low, high) for _ in range(count)]

    def chance(self, of: float = 0.5) -> bool:
        return bool(self.rng.random() < of)

    def size(self) -> int:
        return self.one((0, 1, 1, 2, 2, 3, 3, 4, 5, 6)) if self.chance(0.3) else self.number(1, 5)

    def array(self, shape: Sequence[int], kind: str = "float32") -> Any:
        """Halves from -3 to 3, small integers, or booleans."""
        if kind == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        low = 0 if kind.startswith("u") else -6
        found = self.rng.integers(low, 7, shape)
        return (found / 2).astype(kind) if kind.startswith("float") else found.astype(kind)

    def axis(self, rank: int) -> int:
        if not rank:
            raise Unfit
        return self.number(-rank, rank - 1)

    def axes(self, rank: int, least: int = 0) -> list[int]:
        if rank < least:
            raise Unfit
        held = self.rng.permutation(rank)[: self.number(least, rank)]
        return [int(axis) - (rank if self.chance(0.4) else 0) for axis in held]

    # --- values

    def parameter(self, array: Any) -> Any:
        from openvino import opset13

        array = np.asarray(array)
        made = opset13.parameter(list(array.shape), array.dtype)
        self.parameters.append(made)
        self.feeds.append(array)
        return made.output(0)

    def constant(self, array: Any, kind: str | None = None) -> Any:
        from openvino import opset13

        return opset13.constant(np.asarray(array, kind)).output(0)

    def given(self, array: Any, kind: str | None = None, run_time: float = 0.12) -> Any:
        """What a layer takes besides its data: mostly a constant."""
        held = np.asarray(array, kind)
        return self.parameter(held) if self.chance(run_time) else self.constant(held)

    def whole(self, array: Any, run_time: float = 0.12) -> Any:
        """Integers of one of both widths."""
        return self.given(array, self.one(INTEGERS), run_time)

    def value(
        self,
        rank: int | Sequence[int] | None = None,
        kinds: Sequence[str] = FLOATS,
        fit: Callable[..., bool] | None = None,
    ) -> Any:
        """A value of a known shape: one that was made before, or a new input."""
        ranks = range(6) if rank is None else [rank] if isinstance(rank, int) else rank
        held = [
            value
            for value in self.made
            if value.get_partial_shape().is_static
            and len(value.get_shape()) in ranks
            and value.get_element_type().to_dtype().name in kinds
            and np.prod(value.get_shape()) < 5000
            and (fit is None or fit(list(value.get_shape())))
        ]
        if held and self.chance(0.75):
            return self.one(held)
        shape = [self.size() for _ in range(self.one(list(ranks)))]
        if fit is not None and not fit(shape):
            raise Unfit
        return self.parameter(self.array(shape, self.one(kinds)))

    def like(self, shape: Sequence[int], kind: str = "float32", run_time: float = 0.3) -> Any:
        return self.given(self.array(shape, kind), run_time=run_time)

    def any_value(self, kinds: Sequence[str] = FLOATS) -> Any:
        """A value that may have a shape that only the run tells."""
        held = [v for v in self.made if v.get_element_type().to_dtype().name in kinds]
        return self.one(held) if held and self.chance(0.4) else self.value(None, kinds)

    def make(self, version: int, kind: str, inputs: Sequence[Any], **attributes: Any) -> Any:
        from openvino.utils.node_factory import NodeFactory

        node = NodeFactory(f"opset{version}").create(kind, list(inputs), attributes)
        return node.outputs()


RECIPES: dict[str, Callable[[Draw], Any]] = {}


def recipe(function: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
    RECIPES[function.__name__] = function
    return function


def shape_of(value: Any) -> list[int]:
    return list(value.get_shape())


def kind_of(value: Any) -> str:
    return str(value.get_element_type().to_dtype().name)


# --- elementwise -----------------------------------------------------------------------------------------------

SMOOTH = (
    (1, "Abs"), (3, "Asinh"), (1, "Atan"), (1, "Cos"), (1, "Erf"), (1, "Exp"), (4, "Mish"), (1, "Negative"),
    (1, "Relu"), (1, "Sigmoid"), (1, "Sin"), (4, "SoftPlus"), (9, "SoftSign"), (1, "Tanh"), (4, "HSwish"), (5, "HSigmoid"),
)  # fmt: skip
JUMPS = ((1, "Ceiling"), (1, "Floor"), (1, "Sign"), (10, "IsNaN"), (10, "IsFinite"))


@recipe
def smooth(d: Draw) -> Any:
    version, kind = d.one(SMOOTH)
    return d.make(version, kind, [d.any_value()])


@recipe
def jumps(d: Draw) -> Any:
    version, kind = d.one(JUMPS)
    return d.make(version, kind, [d.value()])


@recipe
def of_integers(d: Draw) -> Any:
    return d.make(1, d.one(("Abs", "Negative", "Sign", "Relu")), [d.value(None, INTEGERS)])


@recipe
def is_inf(d: Draw) -> Any:
    return d.make(10, "IsInf", [d.value()], detect_negative=d.chance(), detect_positive=d.chance())


@recipe
def rounded(d: Draw) -> Any:
    return d.make(5, "Round", [d.value()], mode=d.one(("half_to_even", "half_away_from_zero")))


@recipe
def clamp(d: Draw) -> Any:
    low = d.number(-3, 3) / 2
    return d.make(1, "Clamp", [d.value(None, ("float32", "int32", "int64"))], min=low, max=low + d.number(0, 4) / 2)


@recipe
def parametric(d: Draw) -> Any:
    kind = d.one(("Elu", "Selu", "HardSigmoid", "Swish", "Gelu", "Swish one"))
    x = d.any_value()
    numbers = [d.given(np.float32(abs(d.array(())) + 0.5)) for _ in range(2)]
    if kind == "Elu":
        return d.make(1, kind, [x], alpha=d.number(1, 5) / 2)
    if kind in ("Selu", "HardSigmoid"):
        return d.make(1, kind, [x, *numbers])
    if kind == "Gelu":
        return d.make(7, kind, [x], approximation_mode=d.one(("ERF", "TANH")))
    return d.make(4, "Swish", [x, numbers[0]] if kind == "Swish" else [x])


@recipe
def prelu(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4, 5))
    dims = shape_of(x)
    slopes = d.one(([1], dims[1:2], [dims[-1]], [*dims[1:2], *[1] * (len(dims) - 2)], dims))
    return d.make(1, "PRelu", [x, d.like(slopes)])


def _partner(d: Draw, x: Any) -> Any:
    dims = shape_of(x)
    other = [1 if d.chance(0.3) else dim for dim in dims][d.number(0, len(dims)) :] if d.chance(0.7) else dims
    return d.like(other, kind_of(x))


BINARY = ("Add", "Subtract", "Multiply", "Maximum", "Minimum", "SquaredDifference")
COMPARE = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")


@recipe
def binary(d: Draw) -> Any:
    x = d.value(None, ("float32", "int32", "int64"))
    sides = [x, _partner(d, x)]
    return d.make(1, d.one(BINARY), sides if d.chance() else sides[::-1], auto_broadcast="numpy")


@recipe
def two_values(d: Draw) -> Any:
    x, y = d.any_value(), d.any_value()
    return d.make(1, d.one(("Add", "Multiply", "Maximum")), [x, y], auto_broadcast="numpy")


@recipe
def compared(d: Draw) -> Any:
    x = d.value(None, ("float32", "int32", "int64"))
    return d.make(1, d.one(COMPARE), [x, _partner(d, x)], auto_broadcast="numpy")


@recipe
def divided(d: Draw) -> Any:
    x = d.value(None, ("float32", "int32"))
    other = [1 if d.chance(0.3) else dim for dim in shape_of(x)]
    by = d.array(other, kind_of(x))
    by[by == 0] = 2
    return d.make(1, d.one(("Divide", "Mod", "FloorMod")), [x, d.given(by)], auto_broadcast="numpy")


@recipe
def power(d: Draw) -> Any:
    return d.make(1, "Power", [d.any_value(), d.given(np.float32(d.one((0, 1, 2, 3))))], auto_broadcast="numpy")


@recipe
def logical(d: Draw) -> Any:
    x = d.value(None, ("bool",))
    kind = d.one(("LogicalAnd", "LogicalOr", "LogicalXor", "LogicalNot"))
    return d.make(1, kind, [x] if kind == "LogicalNot" else [x, _partner(d, x)])


@recipe
def bitwise(d: Draw) -> Any:
    x = d.value(None, ("int32", "uint8", "bool"))
    kind = d.one(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
    return d.make(13, kind, [x] if kind == "BitwiseNot" else [x, _partner(d, x)])


@recipe
def select(d: Draw) -> Any:
    x = d.value()
    held = d.value(None, ("bool",))
    return d.make(1, "Select", [held, x, _partner(d, x)], auto_broadcast="numpy")


@recipe
def converted(d: Draw) -> Any:
    to = d.one(("f32", "i32", "i64", "boolean", "f16", "f64", "u8"))
    x = d.value(None, ("float32", "int32", "int64", "bool"))
    if to == "u8" and kind_of(x) != "bool":
        raise Unfit
    return d.make(1, "Convert", [x], destination_type=to)


@recipe
def converted_like(d: Draw) -> Any:
    return d.make(1, "ConvertLike", [d.value(None, ("int32", "bool")), d.value(None, ("float32", "int64"))])


@recipe
def fake_quantize(d: Draw) -> Any:
    x = d.value((2, 3, 4))
    shape = d.one(((), [1, shape_of(x)[1], *[1] * (len(shape_of(x)) - 2)]))
    low = -np.abs(d.array(shape)) - np.float32(0.3)
    ends = [low, -low + np.float32(0.7), low * 2, low * 2 + 5]
    return d.make(
        1, "FakeQuantize", [x, *map(d.constant, ends)], levels=d.one((2, 16, 255, 256)), auto_broadcast="numpy"
    )


# --- reductions and normalization ------------------------------------------------------------------------------


@recipe
def reduced(d: Draw) -> Any:
    kind = d.one(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"))
    x = d.value(None, ("float32", "float32", "int32"))
    axes = d.axes(len(shape_of(x)))
    held = axes[0] if len(axes) == 1 and d.chance() else axes
    version = 4 if kind in ("ReduceL1", "ReduceL2") else 1
    return d.make(version, kind, [x, d.whole(held)], keep_dims=d.chance())


@recipe
def reduced_logically(d: Draw) -> Any:
    x = d.value(None, ("bool",))
    kind = d.one(("ReduceLogicalAnd", "ReduceLogicalOr"))
    return d.make(1, kind, [x, d.whole(d.axes(len(shape_of(x))))], keep_dims=d.chance())


@recipe
def normalize_l2(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    axes = d.axes(len(shape_of(x)))
    return d.make(1, "NormalizeL2", [x, d.whole(axes)], eps=d.one((1e-5, 0.5)), eps_mode=d.one(("add", "max")))


@recipe
def cum_sum(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4), ("float32", "int32"))
    return d.make(3, "CumSum", [x, d.whole(d.axis(len(shape_of(x))))], exclusive=d.chance(), reverse=d.chance())


@recipe
def mvn(d: Draw) -> Any:
    if d.chance():
        x = d.value((2, 3, 4, 5))
        axes = d.axes(len(shape_of(x)))
        mode = d.one(("INSIDE_SQRT", "OUTSIDE_SQRT"))
        return d.make(6, "MVN", [x, d.whole(axes)], eps=0.1, eps_mode=mode, normalize_variance=d.chance(0.8))
    x = d.value((3, 4, 5))
    return d.make(2, "MVN", [x], eps=0.1, across_channels=d.chance(), normalize_variance=d.chance(0.8))


@recipe
def batch_norm(d: Draw) -> Any:
    x = d.value((2, 3, 4, 5))
    c = [shape_of(x)[1]]
    rest = [d.like(c) for _ in range(3)]
    variance = d.given(np.abs(d.array(c)) + np.float32(0.5))
    if d.chance():
        return d.make(5, "BatchNormInference", [x, *rest, variance], epsilon=0.01)
    return d.make(1, "BatchNormInference", [*rest[:2], x, rest[2], variance], epsilon=0.01)


@recipe
def group_norm(d: Draw) -> Any:
    x = d.value((3, 4), fit=lambda dims: dims[1] > 0)
    c = shape_of(x)[1]
    groups = d.one([g for g in range(1, c + 1) if c % g == 0])
    return d.make(12, "GroupNormalization", [x, d.like([c]), d.like([c])], num_groups=groups, epsilon=0.1)


@recipe
def lrn(d: Draw) -> Any:
    x = d.value((3, 4))
    axes = d.one(([1], [1], [2, 3], [-3]))
    numbers = {"alpha": 0.3, "beta": 0.75, "bias": 1.0, "size": d.one((1, 3, 2, 5))}
    return d.make(1, "LRN", [x, d.constant(axes, "int64")], **numbers)


@recipe
def softmax(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    rank = len(shape_of(x))
    version, kind = d.one(((8, "Softmax"), (1, "Softmax"), (5, "LogSoftmax")))
    return d.make(version, kind, [x], axis=d.axis(rank) if (version, kind) != (1, "Softmax") else d.number(0, rank - 1))


@recipe
def grn(d: Draw) -> Any:
    return d.make(1, "GRN", [d.value((2, 3, 4))], bias=0.5)


@recipe
def attention(d: Draw) -> Any:
    batch, heads = d.number(1, 2), d.number(1, 2)
    n, m, e, v = d.numbers(4, 1, 4)
    q, k, w = (d.like(s, run_time=0.8) for s in ([batch, heads, n, e], [batch, heads, m, e], [batch, heads, m, v]))
    causal, inputs = d.chance(0.3), [q, k, w]
    if d.chance():
        shape = d.one(([n, m], [1, 1, n, m], [batch, heads, n, m]))
        inputs.append(d.like(shape) if d.chance() else d.constant(np.tri(*shape[-2:], m, dtype=bool)))
        if d.chance():
            inputs.append(d.given(np.float32(0.4)))
    return d.make(13, "ScaledDotProductAttention", inputs, causal=causal)


# --- products, convolutions, pools -----------------------------------------------------------------------------


@recipe
def matmul(d: Draw) -> Any:
    n, k, m = d.size(), d.size(), d.size()
    a, b = d.chance(), d.chance()
    batch = [d.number(1, 3) for _ in range(d.number(0, 2))]
    left, right = batch + ([k, n] if a else [n, k]), ([m, k] if b else [k, m])
    if d.chance(0.3):
        right = batch + right
    if d.chance(0.2):
        left = [k]
    elif d.chance(0.2):
        right = [k]
    return d.make(1, "MatMul", [d.like(left, run_time=0.9), d.like(right)], transpose_a=a, transpose_b=b)


@recipe
def einsum(d: Draw) -> Any:
    sizes = {letter: d.number(1, 4) for letter in "abcd"}
    equation = d.one(("ab,bc->ac", "abc,abd->acd", "ab,ab->a", "abc->ca", "a,b->ab", "ab->"))
    inputs = [d.like([sizes[c] for c in part], run_time=0.8) for part in equation.partition("->")[0].split(",")]
    return d.make(7, "Einsum", inputs, equation=equation)


AUTO = ("explicit", "explicit", "same_upper", "same_lower", "valid")


def _windows(d: Draw, rank: int, dilated: bool = True) -> dict[str, Any]:
    return {
        "strides": d.numbers(rank, 1, 3),
        "dilations": d.numbers(rank, 1, 3) if dilated and d.chance(0.4) else [1] * rank,
        "pads_begin": d.numbers(rank, 0, 2),
        "pads_end": d.numbers(rank, 0, 2),
        "auto_pad": d.one(AUTO),
    }


def _image(d: Draw, rank: int, channels: int | None = None) -> Any:
    c = channels or d.number(1, 4)
    return d.parameter(d.array([d.number(1, 2), c, *d.numbers(rank, 1, 8)]))


@recipe
def convolution(d: Draw) -> Any:
    rank = d.one((1, 2, 2, 2, 3))
    x = _image(d, rank)
    c = shape_of(x)[1]
    if d.chance(0.6):
        weights = d.like([d.number(1, 3), c, *d.numbers(rank, 1, 3)], run_time=0.1)
        return d.make(1, "Convolution", [x, weights], **_windows(d, rank))
    groups = d.one([g for g in range(1, c + 1) if c % g == 0])
    weights = d.like([groups, d.number(1, 2), c // groups, *d.numbers(rank, 1, 3)], run_time=0.1)
    return d.make(1, "GroupConvolution", [x, weights], **_windows(d, rank))


@recipe
def deconvolution(d: Draw) -> Any:
    rank = d.one((1, 2, 2, 2))
    x = _image(d, rank)
    c = shape_of(x)[1]
    held = _windows(d, rank)
    held["output_padding"] = [d.number(0, s - 1) if d.chance(0.3) else 0 for s in held["strides"]]
    shape = []
    if d.chance(0.3):
        held["output_padding"] = [0] * rank
        shape = [
            d.given([s * n + d.number(-1, 1) for s, n in zip(held["strides"], shape_of(x)[2:], strict=True)], "int64")
        ]
    if d.chance(0.6):
        weights = d.like([c, d.number(1, 3), *d.numbers(rank, 1, 3)], run_time=0.1)
        return d.make(1, "ConvolutionBackpropData", [x, weights, *shape], **held)
    groups = d.one([g for g in range(1, c + 1) if c % g == 0])
    weights = d.like([groups, c // groups, d.number(1, 2), *d.numbers(rank, 1, 3)], run_time=0.1)
    return d.make(1, "GroupConvolutionBackpropData", [x, weights, *shape], **held)


@recipe
def max_pool(d: Draw) -> Any:
    rank = d.one((1, 2, 2, 2, 3))
    held = _windows(d, rank)
    x = _image(d, rank)
    kernel = d.numbers(rank, 1, 3)
    if d.chance(0.3):
        held.pop("dilations")
        return d.make(1, "MaxPool", [x], kernel=kernel, rounding_type=d.one(("floor", "ceil")), **held)
    roundings, version = (("floor", "ceil"), 8) if d.chance(0.3) else (("floor", "ceil", "ceil_torch"), 14)
    made = d.make(
        version, "MaxPool", [x], kernel=kernel, rounding_type=d.one(roundings), axis=d.number(-rank - 2, rank + 1),
        index_element_type=d.one(("i32", "i64")), **held,
    )  # fmt: skip
    return made if d.chance(0.3) else made[:1]


@recipe
def avg_pool(d: Draw) -> Any:
    rank = d.one((1, 2, 2, 2, 3))
    version, roundings = d.one(
        ((1, ("floor", "ceil")), (14, ("floor", "ceil", "ceil_torch")), (16, ("floor", "ceil", "ceil_torch")))
    )
    held = _windows(d, rank)
    if version < 16:
        held.pop("dilations")
    exclude = {("exclude-pad" if version == 1 else "exclude_pad"): d.chance()}
    rounding = d.one(roundings)
    return d.make(
        version, "AvgPool", [_image(d, rank)], kernel=d.numbers(rank, 1, 3), rounding_type=rounding, **exclude, **held
    )


@recipe
def adaptive_pool(d: Draw) -> Any:
    rank = d.one((1, 2, 2, 3))
    x = _image(d, rank)
    if d.chance(0.7):
        return d.make(8, "AdaptiveAvgPool", [x, d.whole(d.numbers(rank, 1, 4))])
    made = d.make(8, "AdaptiveMaxPool", [x, d.whole(d.numbers(rank, 1, 4))], index_element_type="i64")
    return made if d.chance(0.3) else made[:1]


@recipe
def roi_align(d: Draw) -> Any:
    x = _image(d, 2)
    count = d.number(1, 3)
    low = np.abs(d.array([count, 2]))
    boxes = np.concatenate([low, low + np.abs(d.array([count, 2]))], 1)
    held = {"pooled_h": d.number(1, 3), "pooled_w": d.number(1, 3), "sampling_ratio": d.number(0, 2)}
    held |= {"spatial_scale": d.one((0.5, 1.0)), "mode": d.one(("avg", "max"))}
    batch = d.given(d.numbers(count, 0, shape_of(x)[0] - 1), "int32")
    if d.chance(0.3):
        return d.make(3, "ROIAlign", [x, d.given(boxes), batch], **held)
    return d.make(
        9,
        "ROIAlign",
        [x, d.given(boxes), batch],
        aligned_mode=d.one(("asymmetric", "half_pixel_for_nn", "half_pixel")),
        **held,
    )


@recipe
def roi_pooling(d: Draw) -> Any:
    x = _image(d, 2)
    count = d.number(1, 3)
    low = np.abs(d.array([count, 2]))
    method = d.one(("max", "bilinear"))
    scale = d.one((1.0, 0.5))
    if method == "bilinear":
        low = low / 6
        boxes = np.concatenate([low, low + np.abs(d.array([count, 2])) / 6], 1)
    else:
        boxes = np.concatenate([low, low + np.abs(d.array([count, 2]))], 1)
    batch = np.array([[d.number(0, shape_of(x)[0] - 1)] for _ in range(count)], np.float32)
    boxes = np.concatenate([batch, boxes], 1).astype(np.float32)
    size = [d.number(1, 3), d.number(1, 3)]
    return d.make(
        2,
        "ROIPooling",
        [x, d.given(boxes, run_time=0.5)],
        output_size=size,
        pooled_h=size[0],
        pooled_w=size[1],
        method=method,
        spatial_scale=scale,
    )


@recipe
def suppressed(d: Draw) -> Any:
    batch, count, classes = d.number(1, 2), d.number(1, 6), d.number(1, 2)
    low = d.rng.uniform(0, 1, (batch, count, 2))
    boxes = np.concatenate([low, low + d.rng.uniform(0.2, 1, (batch, count, 2))], 2).astype(np.float32)
    scores = d.rng.permutation(batch * classes * count).reshape(batch, classes, count).astype(np.float32) / 16
    inputs = [
        d.parameter(boxes),
        d.parameter(scores),
        d.given(d.number(0, 4), "int64"),
        d.given(np.float32(d.one((0.3, 0.6, 0.0)))),
    ]
    inputs.append(d.given(np.float32(d.one((0.0, 0.2)))))
    if d.chance(0.3):
        inputs.append(d.constant(np.float32(d.one((0.0, 0.5)))))
    held = {
        "box_encoding": d.one(("corner", "center")),
        "sort_result_descending": d.chance(),
        "output_type": d.one(("i32", "i64")),
    }
    return d.make(d.one((5, 9, 9)), "NonMaxSuppression", inputs, **held)


# --- layout ----------------------------------------------------------------------------------------------------


@recipe
def reshaped(d: Draw) -> Any:
    x = d.value()
    dims = shape_of(x)
    zero = d.chance()
    kept = list(dims)
    if zero and kept and d.chance():
        kept[d.number(0, len(kept) - 1)] = 0
    if len(kept) > 1 and d.chance():
        place = d.number(0, len(kept) - 2)
        if kept[place] and kept[place + 1]:
            kept[place : place + 2] = [kept[place] * kept[place + 1]]
    elif d.chance(0.4):
        kept.insert(0, 1) if not zero else kept.append(1)
    if kept and d.chance(0.4):
        kept[d.number(0, len(kept) - 1)] = -1
    return d.make(1, "Reshape", [x, d.whole(kept)], special_zero=zero)


@recipe
def transposed(d: Draw) -> Any:
    x = d.any_value()
    rank = x.get_partial_shape().rank
    if not rank.is_static:
        raise Unfit
    order = [int(a) for a in d.rng.permutation(rank.get_length())]
    return d.make(1, "Transpose", [x, d.whole(order if d.chance(0.8) else [])])


@recipe
def squeezed(d: Draw) -> Any:
    x = d.value(None, ("float32", "int64", "bool"))
    ones = [axis for axis, dim in enumerate(shape_of(x)) if dim == 1]
    version = d.one((1, 15))
    if d.chance(0.3):
        return d.make(version, "Squeeze", [x])
    held = {"allow_axis_skip": d.chance(0.4)} if version == 15 else {}
    axes = [a - (len(shape_of(x)) if d.chance() else 0) for a in ones if d.chance(0.7)]
    if held.get("allow_axis_skip") and shape_of(x) and d.chance():
        axes = d.axes(len(shape_of(x)), 1)
    return d.make(version, "Squeeze", [x, d.whole(axes)], **held)


@recipe
def unsqueezed(d: Draw) -> Any:
    x = d.any_value(("float32", "int64", "bool"))
    rank = x.get_partial_shape().rank
    if not rank.is_static or rank.get_length() > 3:
        raise Unfit
    count = d.number(1, 2)
    axes = [int(a) for a in d.rng.permutation(rank.get_length() + count)[:count]]
    return d.make(1, "Unsqueeze", [x, d.whole(axes if d.chance(0.8) or count > 1 else axes[0])])


@recipe
def concat(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4), ("float32", "int32"))
    dims = shape_of(x)
    axis = d.axis(len(dims))
    others = []
    for _ in range(d.number(0, 2)):
        other = list(dims)
        other[axis] = d.size()
        others.append(d.like(other, kind_of(x)))
    return d.make(1, "Concat", [x, *others], axis=axis)


@recipe
def split(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    axis = d.axis(len(shape_of(x)))
    size = shape_of(x)[axis]
    if d.chance():
        if not size:
            raise Unfit
        parts = d.one([n for n in range(1, size + 1) if size % n == 0])
        return d.make(1, "Split", [x, d.whole(axis)], num_splits=parts)
    first = d.number(0, size)
    lengths = d.one(([first, size - first], [first, -1], [-1], [0, size]))
    return d.make(1, "VariadicSplit", [x, d.whole(axis), d.whole(lengths)])


@recipe
def broadcast(d: Draw) -> Any:
    x = d.value((0, 1, 2, 3))
    dims = shape_of(x)
    mode = d.one(("numpy", "bidirectional", "explicit"))
    target = [d.number(1, 3) if dim == 1 and d.chance() else dim for dim in dims]
    if mode == "explicit":
        axes = sorted(int(a) for a in d.rng.permutation(len(dims) + 1)[: len(dims)])
        full = [2] * (len(dims) + 1)
        for axis, dim in zip(axes, target, strict=True):
            full[axis] = dim
        return d.make(3, "Broadcast", [x, d.whole(full), d.whole(axes)], mode=mode)
    if mode == "bidirectional":
        target = [1 if d.chance(0.4) else dim for dim in target][d.number(0, len(target)) :]
    return d.make(3, "Broadcast", [x, d.whole([d.number(1, 2)] * d.number(0, 1) + target)], mode=mode)


@recipe
def tile(d: Draw) -> Any:
    x = d.value((0, 1, 2, 3), ("float32", "int64"))
    return d.make(1, "Tile", [x, d.whole(d.numbers(d.number(1, 4), 0 if d.chance(0.1) else 1, 2))])


@recipe
def sized(d: Draw) -> Any:
    return d.make(3, "ShapeOf", [d.any_value(("float32", "bool", "int32"))], output_type=d.one(("i32", "i64")))


@recipe
def pad(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    dims = shape_of(x)
    mode = d.one(("constant", "edge", "reflect", "symmetric"))
    least = -1 if d.chance(0.3) else 0
    if mode == "constant":
        widths = [d.numbers(len(dims), least, 2) for _ in range(2)]
    else:
        most = [max(min(dim - (mode == "reflect"), 2), 0) for dim in dims]
        widths = [[d.number(min(least, m), m) for m in most] for _ in range(2)]
    fill = [d.given(np.float32(d.number(-2, 2)))] if mode == "constant" and d.chance(0.7) else []
    return d.make(12 if least < 0 or d.chance() else 1, "Pad", [x, *map(d.whole, widths), *fill], pad_mode=mode)


@recipe
def to_depth(d: Draw) -> Any:
    rank, block = d.one((1, 2, 2, 3)), d.number(1, 3)
    held = {"block_size": block, "mode": d.one(("blocks_first", "depth_first"))}
    if d.chance():
        x = d.parameter(d.array([d.number(1, 2), d.number(1, 2) * block**rank, *d.numbers(rank, 1, 3)]))
        return d.make(1, "DepthToSpace", [x], **held)
    x = d.parameter(d.array([d.number(1, 2), d.number(1, 2), *(block * n for n in d.numbers(rank, 1, 3))]))
    return d.make(1, "SpaceToDepth", [x], **held)


@recipe
def shuffled(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    axis = d.axis(len(shape_of(x)))
    groups = d.one([g for g in range(1, 7) if shape_of(x)[axis] % g == 0])
    return d.make(3, "ShuffleChannels", [x], axis=axis, group=groups)


@recipe
def space_to_batch(d: Draw) -> Any:
    rank = d.one((2, 3, 4, 4, 5))
    blocks = [1, *d.numbers(rank - 1, 1, 3)]
    begin = [0, *d.numbers(rank - 1, 0, 1)]
    if d.chance():
        end = [0, *d.numbers(rank - 1, 0, 1)]
        dims = [
            d.number(1, 2),
            *(max(b * d.number(1, 2) - p - e, 0) for b, p, e in zip(blocks[1:], begin[1:], end[1:], strict=True)),
        ]
        return d.make(2, "SpaceToBatch", [d.parameter(d.array(dims)), *(d.whole(n) for n in (blocks, begin, end))])
    dims = [int(np.prod(blocks)) * d.number(1, 2), *d.numbers(rank - 1, 1, 3)]
    end = [
        0,
        *(d.number(0, 1) if b * n - p > 1 else 0 for b, n, p in zip(blocks[1:], dims[1:], begin[1:], strict=True)),
    ]
    return d.make(2, "BatchToSpace", [d.parameter(d.array(dims)), *(d.whole(n) for n in (blocks, begin, end))])


@recipe
def reversed_(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    rank = len(shape_of(x))
    if d.chance():
        axes = d.axes(rank)
        if d.chance():
            return d.make(1, "Reverse", [x, d.whole(axes)], mode="index")
        return d.make(1, "Reverse", [x, d.given(d.array([rank], "bool"))], mode="mask")
    if rank < 2:
        raise Unfit
    batch, time = (int(a) for a in d.rng.permutation(rank)[:2])
    lengths = d.given(d.numbers(shape_of(x)[batch], 1, max(shape_of(x)[time], 1)), "int32", 0.5)
    return d.make(1, "ReverseSequence", [x, lengths], batch_axis=batch - (rank if d.chance(0.3) else 0), seq_axis=time)


@recipe
def rolled(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4), ("float32", "int32"))
    axes = d.axes(len(shape_of(x)), 1)
    axes += axes[:1] if d.chance(0.2) else []
    shifts = d.numbers(len(axes), -7, 7)
    return d.make(7, "Roll", [x, d.whole(shifts if d.chance(0.8) else shifts[0]), d.whole(axes)])


# --- indexing --------------------------------------------------------------------------------------------------


@recipe
def gather(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    dims = shape_of(x)
    axis = d.axis(len(dims))
    size = dims[axis]
    version = d.one((1, 7, 8, 8))
    least = -size if version == 8 else 0
    batch = d.number(0, axis % len(dims)) if version > 1 and d.chance(0.4) else 0
    shape = dims[:batch] + [d.size() for _ in range(d.number(0, 2))]
    if not size:
        raise Unfit
    places = d.rng.integers(least, size, shape)
    held = {"batch_dims": batch} if version > 1 else {}
    return d.make(version, "Gather", [x, d.whole(places, 0.5), d.whole(axis)], **held)


@recipe
def gather_elements(d: Draw) -> Any:
    x = d.value((1, 2, 3))
    dims = shape_of(x)
    axis = d.axis(len(dims))
    if not dims[axis]:
        raise Unfit
    shape = list(dims)
    shape[axis] = d.size()
    return d.make(6, "GatherElements", [x, d.whole(d.rng.integers(0, dims[axis], shape), 0.5)], axis=axis)


@recipe
def gather_nd(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4), fit=lambda dims: min(dims) > 0)
    dims = shape_of(x)
    batch = d.number(0, min(2, len(dims) - 1))
    depth = d.number(1, len(dims) - batch)
    shape = dims[:batch] + [d.number(1, 3) for _ in range(d.number(0, 1))]
    places = np.stack([d.rng.integers(0, dims[batch + k], shape) for k in range(depth)], -1)
    return d.make(d.one((5, 8, 8)), "GatherND", [x, d.whole(places, 0.5)], batch_dims=batch)


@recipe
def scatter(d: Draw) -> Any:
    x = d.value((1, 2, 3), ("float32", "int32"), fit=lambda dims: min(dims) > 0)
    dims, kind = shape_of(x), kind_of(x)
    axis = d.axis(len(dims))
    choice = d.number(0, 2)
    if choice == 0:
        shape = [d.number(1, dim) for dim in dims]
        version = d.one((3, 12, 12))
        places = d.rng.integers(0, dims[axis], shape)
        if version == 12:
            held = {"reduction": d.one(("none", "sum", "prod", "min", "max", "mean")), "use_init_val": d.chance(0.8)}
        else:
            held = {}
        if held.get("reduction", "none") == "none":
            places = np.argsort(
                d.rng.random([*(dims[a] if a == axis % len(dims) else s for a, s in enumerate(shape))]), axis
            )
            places = np.take(places, range(shape[axis]), axis)
        return d.make(
            version, "ScatterElementsUpdate", [x, d.whole(places, 0.4), d.like(shape, kind), d.whole(axis)], **held
        )
    if choice == 1:
        count = d.number(1, dims[axis])
        places = d.rng.permutation(dims[axis])[:count]
        axis = axis % len(dims)
        updates = d.like([*dims[:axis], count, *dims[axis + 1 :]], kind)
        return d.make(3, "ScatterUpdate", [x, d.whole(places, 0.4), updates, d.whole(axis)])
    depth = d.number(1, len(dims))
    total = int(np.prod(dims[:depth]))
    places = np.stack(np.unravel_index(d.rng.permutation(total)[: d.number(1, total)], dims[:depth]), -1)
    updates = d.like([len(places), *dims[depth:]], kind)
    held = {"reduction": d.one(("none", "sum", "sub", "prod", "min", "max"))} if d.chance(0.7) else {}
    return d.make(15 if held else 4, "ScatterNDUpdate", [x, d.whole(places, 0.4), updates], **held)


def _ends(d: Draw, size: int) -> int:
    return d.one(
        (d.number(-size - 2, size + 2), d.number(-size - 2, size + 2), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
    )


@recipe
def sliced(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    dims = shape_of(x)
    axes = d.axes(len(dims), 1)
    numbers = [[_ends(d, dims[a]) for a in axes] for _ in range(2)]
    steps = [d.one((1, 1, 2, -1, -2, 3)) for _ in axes]
    if any(abs(n) > 2**31 - 1 for held in numbers for n in held) or d.chance():
        inputs = [d.given(n, "int64") for n in (*numbers, steps)]
    else:
        inputs = [d.whole(n) for n in (*numbers, steps)]
    if sorted(a % len(dims) for a in axes) == list(range(len(axes))) and d.chance():
        order = np.argsort([a % len(dims) for a in axes])
        return d.make(8, "Slice", [x, *(d.given(np.array(n)[order], "int64") for n in (*numbers, steps))])
    return d.make(8, "Slice", [x, *inputs, d.whole(axes)])


@recipe
def strided(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    dims = shape_of(x)
    count = d.number(1, len(dims))
    new, shrink, ellipsis = [0] * count, [0] * count, [0] * count
    for place in range(count):
        new[place] = int(d.chance(0.15))
        shrink[place] = int(d.chance(0.2))
    if d.chance(0.25):
        ellipsis[d.number(0, count - 1)] = 1
    begin, end = ([d.number(-d_, d_) for d_ in dims[:count]] for _ in range(2))
    steps = [d.one((1, 1, 2, -1, -2)) if not shrink[k] else 1 for k in range(count)]
    masks = {
        "begin_mask": [int(d.chance(0.3)) for _ in range(count)],
        "end_mask": [int(d.chance(0.3)) for _ in range(count)],
    }
    masks |= {"new_axis_mask": new, "shrink_axis_mask": shrink, "ellipsis_mask": ellipsis}
    inputs = [d.given(n, "int64") for n in (begin, end)]
    if any(n != 1 for n in steps) or d.chance():
        inputs.append(d.given(steps, "int64"))
    return d.make(1, "StridedSlice", [x, *inputs], **masks)


@recipe
def ranged(d: Draw) -> Any:
    start, step = d.number(-3, 3), d.one((1, 2, -1, -2))
    stop = start + step * d.number(0, 4) + d.number(0, 1)
    kind, to = d.one((("int32", "i32"), ("int64", "i64"), ("float32", "f32"), ("int32", "f32")))
    return d.make(4, "Range", [d.given(n, kind, 0.4) for n in (start, stop, step)], output_type=to)


@recipe
def top_k(d: Draw) -> Any:
    dims = [d.number(1, 5) for _ in range(d.number(1, 3))]
    axis = d.axis(len(dims))
    x = d.parameter(d.rng.permutation(int(np.prod(dims))).reshape(dims).astype(np.float32))
    count = d.whole(d.number(1, dims[axis]))
    held = {
        "axis": axis,
        "mode": d.one(("max", "min")),
        "sort": d.one(("value", "index")),
        "index_element_type": d.one(("i32", "i64")),
    }
    if d.chance(0.3):
        return d.make(11, "TopK", [x, count], stable=held["sort"] == "value" and d.chance(), **held)
    return d.make(d.one((1, 3)), "TopK", [x, count], **held)


@recipe
def non_zero(d: Draw) -> Any:
    return d.make(3, "NonZero", [d.value(None, ("float32", "int32", "bool"))], output_type=d.one(("i32", "i64")))


@recipe
def one_hot(d: Draw) -> Any:
    places = d.rng.integers(-1, 6, [d.size() for _ in range(d.number(0, 3))])
    axis = d.number(-places.ndim - 1, places.ndim)
    depth, on, off = d.whole(d.number(1, 5)), d.given(np.float32(2)), d.given(np.float32(-1))
    return d.make(1, "OneHot", [d.whole(places, 0.6), depth, on, off], axis=axis)


@recipe
def eye(d: Draw) -> Any:
    batch = [d.given(d.numbers(d.number(1, 2), 1, 2), "int32")] if d.chance(0.3) else []
    numbers = [d.given(n, "int32") for n in (d.number(0, 4), d.number(0, 4), d.number(-5, 5))]
    return d.make(9, "Eye", [*numbers, *batch], output_type=d.one(("f32", "i32", "i64")))


@recipe
def unique(d: Draw) -> Any:
    x = d.value((1, 2, 3), ("float32", "int32"))
    axis = [d.constant(d.number(0, len(shape_of(x)) - 1), "int32")] if d.chance() else []
    return d.make(
        10, "Unique", [x, *axis], sorted=d.chance(), index_element_type=d.one(("i32", "i64")), count_element_type="i64"
    )


@recipe
def bags(d: Draw) -> Any:
    rows, width = d.number(1, 5), d.numbers(d.number(1, 2), 1, 3)
    table = d.like([rows, *width], run_time=0.4)
    count = d.number(1, 6)
    choice = d.number(0, 4)
    places = d.given(d.numbers(count, 0, rows - 1), d.one(INTEGERS), 0.5)
    kind = kind_of(places)
    if choice == 0 or choice == 1:
        bag_count = d.number(1, 4)
        offsets = sorted(d.numbers(bag_count, 0, count))
        offsets[0] = 0
        inputs = [table, places, d.given(offsets, kind, 0.4)]
        if d.chance(0.7):
            inputs.append(d.given(d.number(-1 if choice else 0, rows - 1), kind))
            if d.chance():
                inputs.append(d.like([count]))
        if choice == 0:
            return d.make(3, "EmbeddingBagOffsetsSum", inputs)
        mean = d.chance()
        return d.make(15, "EmbeddingBagOffsets", inputs[: 4 if mean else 5], reduction="mean" if mean else "sum")
    if choice in (2, 3):
        shape = [d.number(1, 3), d.number(1, 3)]
        inputs = [table, d.given(d.rng.integers(0, rows, shape), kind, 0.5)]
        if d.chance():
            inputs.append(d.like(shape))
        if choice == 2:
            return d.make(3, "EmbeddingBagPackedSum", inputs)
        mean = d.chance()
        return d.make(15, "EmbeddingBagPacked", inputs[: 2 if mean else 3], reduction="mean" if mean else "sum")
    segments = d.number(1, 4)
    ids = sorted(d.numbers(count, 0, segments - 1))
    inputs = [table, places, d.given(ids, kind, 0.4), d.given(segments, kind)]
    if d.chance(0.7):
        inputs.append(d.given(d.number(-1, rows - 1), kind))
        if d.chance():
            inputs.append(d.like([count]))
    return d.make(3, "EmbeddingSegmentsSum", inputs)


# --- recurrent -------------------------------------------------------------------------------------------------


@recipe
def recurrent(d: Draw) -> Any:
    kind = d.one(("LSTM", "GRU", "RNN"))
    gates, states = {"LSTM": (4, 2), "GRU": (3, 1), "RNN": (1, 1)}[kind]
    batch, time, size, hidden = d.number(1, 3), d.number(1, 4), d.number(1, 3), d.number(1, 3)
    whole = d.chance()
    direction = d.one(("forward", "reverse", "bidirectional")) if whole else "forward"
    count = 2 if direction == "bidirectional" else 1
    held: dict[str, Any] = {"hidden_size": hidden}
    biases = gates
    if kind == "GRU":
        held["linear_before_reset"] = d.chance()
        biases += int(held["linear_before_reset"])
    if d.chance(0.2):
        held["clip"] = 0.75
    if d.chance(0.2):
        held["activations"] = {"LSTM": ["sigmoid", "relu", "tanh"], "GRU": ["sigmoid", "relu"], "RNN": ["relu"]}[kind]
    lead = [count] if whole else []
    weights = [
        d.like([*lead, gates * hidden, size], run_time=0.1),
        d.like([*lead, gates * hidden, hidden], run_time=0.1),
    ]
    weights.append(d.like([*lead, biases * hidden], run_time=0.1))
    if whole:
        start = [d.like([batch, count, hidden]) for _ in range(states)]
        lengths = d.given(d.numbers(batch, 1, time), d.one(INTEGERS), 0.3)
        x = d.parameter(d.array([batch, time, size]))
        return d.make(5, f"{kind}Sequence", [x, *start, lengths, *weights], direction=direction, **held)
    x = d.parameter(d.array([batch, size]))
    start = [d.like([batch, hidden]) for _ in range(states)]
    return d.make({"LSTM": 4, "GRU": 3, "RNN": 1}[kind], f"{kind}Cell", [x, *start, *weights], **held)


# --- resampling and spectra ------------------------------------------------------------------------------------


@recipe
def interpolated(d: Draw) -> Any:
    rank = d.one((3, 4, 4, 4, 5))
    dims = [d.number(1, 2), d.number(1, 2), *d.numbers(rank - 2, 1, 5)]
    axes = list(range(2, rank))
    mode = d.one(("nearest", "linear_onnx", "linear", "cubic"))
    if mode == "linear_onnx" and rank == 3:
        raise Unfit
    by = d.one(("sizes", "scales"))
    held = {
        "mode": mode, "shape_calculation_mode": by, "antialias": d.chance(0.05), "cube_coeff": d.one((-0.75, -0.5)),
        "coordinate_transformation_mode": d.one(("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn")),
        "nearest_mode": d.one(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")),
        "pads_begin": [0] * rank if d.chance(0.8) else d.numbers(rank, 0, 1), "pads_end": [0] * rank,
    }  # fmt: skip
    sizes = d.numbers(len(axes), 1, 7)
    scales = [d.one((0.5, 1, 1.5, 2, 0.7)) for _ in axes]
    if any(int(s * n) < 1 for s, n in zip(scales, dims[2:], strict=True)):
        raise Unfit
    x = d.parameter(d.array(dims))
    if d.chance():
        chosen = d.given(sizes, "int64") if by == "sizes" else d.given(scales, "float32")
        return d.make(11, "Interpolate", [x, chosen, d.constant(axes, "int64")], **held)
    inputs = [x, d.given(sizes, "int64"), d.given(scales, "float32"), d.constant(axes, "int64")]
    return d.make(4, "Interpolate", inputs, **held)


@recipe
def grid_sampled(d: Draw) -> Any:
    x = _image(d, 2)
    n = shape_of(x)[0]
    grid = d.rng.uniform(-1.4, 1.4, [n, d.number(1, 3), d.number(1, 3), 2]).astype(np.float32)
    held = {
        "align_corners": d.chance(),
        "mode": d.one(("bilinear", "nearest", "bicubic")),
        "padding_mode": d.one(("zeros", "border", "reflection")),
    }
    return d.make(9, "GridSample", [x, d.given(grid, run_time=0.6)], **held)


@recipe
def spectrum(d: Draw) -> Any:
    kind = d.one(("DFT", "IDFT", "RDFT", "IRDFT"))
    rank = d.number(1, 3)
    dims = d.numbers(rank, 1, 5)
    axes = d.axes(rank, 1)
    x = d.parameter(d.array(dims if kind == "RDFT" else [*dims, 2]))
    sizes = [d.whole([d.one((-1, d.number(1, 6))) for _ in axes], 0.05)] if d.chance(0.4) else []
    return d.make(9 if kind in ("RDFT", "IRDFT") else 7, kind, [x, d.whole(axes, 0.05), *sizes])

"""Reductions, normalization and attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.layers.draw import Draw, recipe, shape_of


@recipe
def reduced(d: Draw) -> Any:
    kind = d.one(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"))
    few = (lambda dims: np.prod(dims) <= 10) if kind == "ReduceProd" else None  # whose product is no larger than a type
    x = d.value(None, ("float32", "float32", "int32"), few)
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
        return d.make(6, "MVN", [x, d.whole(axes, 0.4)], eps=0.1, eps_mode=mode, normalize_variance=d.chance(0.8))
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
    axes = d.one(([1], [1], [2, 3], [-3]) if len(shape_of(x)) == 4 else ([1], [2], [-2]))
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
    batch, heads = d.count(2), d.number(1, 2)
    n, m, e, v = d.numbers(4, 1, 4)
    q, k, w = (d.like(s, run_time=0.8) for s in ([batch, heads, n, e], [batch, heads, m, e], [batch, heads, m, v]))
    causal, inputs = d.chance(0.3), [q, k, w]
    if d.chance():
        shape = d.one(([n, m], [1, 1, n, m], [batch, heads, n, m]))
        inputs.append(d.like(shape) if d.chance() else d.constant(np.tri(*shape[-2:], m, dtype=bool)))
        if d.chance():
            inputs.append(d.given(np.float32(0.4)))
    return d.make(13, "ScaledDotProductAttention", inputs, causal=causal)


@recipe
def rms(d: Draw) -> Any:
    """As networks write out what OpenVINO computes as RMS, of which no version of its operators is."""
    x = d.value((2, 3, 4))
    squares = d.make(1, "Power", [x, d.constant(np.float32(2))])
    mean = d.make(1, "ReduceMean", [*squares, d.constant([-1], "int64")], keep_dims=True)
    size = d.make(1, "Sqrt", d.make(1, "Add", [*mean, d.constant(np.float32(0.1))]))
    one = d.make(1, "Divide", [d.constant(np.float32(1)), *size])
    return d.make(1, "Multiply", [*d.make(1, "Multiply", [x, *one]), d.constant(d.array(shape_of(x)[-1:]))])

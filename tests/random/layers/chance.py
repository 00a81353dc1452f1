"""Numbers that are drawn by chance: what holds of them, whichever they are. They have the type of what they are compared with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tests.random.layers.draw import INTEGERS, Draw, recipe


@recipe
def uniform(d: Draw) -> Any:
    """From the least number on, and below the largest one, which halves are rounded to."""
    kind, to = d.one((("float32", "f32"), ("float16", "f16"), ("int32", "i32"), ("int64", "i64")))
    least = d.number(-5, 5)
    bounds = [d.given(np.array(n, kind), run_time=0.3) for n in (least, least + d.number(1, 4))]
    shape = d.whole([d.size() for _ in range(d.number(1, 3))], 0.4)
    drawn = d.make(8, "RandomUniform", [shape, *bounds], output_type=to, global_seed=d.number(0, 2), op_seed=3)
    if kind == "float16":  # for the comparisons of which onnxruntime has no kernels
        drawn, *bounds = (
            value for one in (*drawn, *bounds) for value in d.make(1, "Convert", [one], destination_type="f32")
        )
        return _within(d, drawn, bounds, "LessEqual")
    return _within(d, *drawn, bounds, "Less")


@recipe
def classes(d: Draw) -> Any:
    """Of what is not put back, all are others; of what is, none that is not probable at all."""
    batch, count, again, logarithms = d.number(1, 3), d.number(1, 4), d.chance(), d.chance()
    shares = d.rng.uniform(0.1, 1, [batch, count]).astype(np.float32)
    if again and count > 1:
        shares[:, d.number(0, count - 1)] = 0
    with np.errstate(divide="ignore"):
        given = d.parameter(np.log(shares) if logarithms else shares)
    samples, kind = d.number(1, 5 if again else count), d.one(INTEGERS)
    held = {"convert_type": {"int32": "i32", "int64": "i64"}[kind], "with_replacement": again, "log_probs": logarithms}
    drawn = d.make(13, "Multinomial", [given, d.whole([samples])], **held, global_seed=d.number(0, 2), op_seed=3)
    (falling, _) = d.make(
        3, "TopK", [*drawn, d.constant(samples)], axis=1, mode="max", sort="value"
    )  # which alone may read them
    found = _within(d, falling, [d.constant(np.array(n, kind)) for n in (0, count)], "Less")
    if again:
        probable = d.make(6, "GatherElements", [d.constant(shares), falling], axis=1)
        return [*found, *d.make(1, "Greater", [*probable, d.constant(np.float32(0))])]
    parts = d.make(1, "Split", [falling, d.constant(1)], num_splits=samples)
    return [*found, *(other for pair in pairwise(parts) for other in d.make(1, "NotEqual", pair))]


def _within(d: Draw, drawn: Any, bounds: list[Any], below: str) -> list[Any]:
    """How many there are, and that they lie between their bounds."""
    low, high = bounds
    truths = d.make(1, "GreaterEqual", [drawn, low]) + d.make(1, below, [drawn, high])
    return d.make(3, "ShapeOf", [drawn], output_type="i64") + d.make(1, "LogicalAnd", truths)

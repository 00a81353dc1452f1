"""Layers that have layers inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.random.layers.draw import Draw, Unfit, recipe, shape_of


def _steps(d: Draw, value: Any) -> Any:
    """One to three layers that keep the shape."""
    from openvino import opset13

    for _ in range(d.number(1, 3)):
        kind = d.one(("relu", "tanh", "add", "multiply", "sum"))
        if kind in ("relu", "tanh"):
            value = getattr(opset13, kind)(value)
        elif kind == "sum" and value.get_output_partial_shape(0).rank.get_length():
            value = opset13.subtract(value, opset13.reduce_max(value, opset13.constant([0]), True))
        else:
            value = getattr(opset13, "add" if kind == "sum" else kind)(
                value, opset13.constant(np.float32(d.number(-2, 2)))
            )
    return value


def _body(d: Draw, x: Any, ends: Callable[[Any], Any]) -> tuple[Any, Any]:
    import openvino

    inner = openvino.opset13.parameter(x.get_partial_shape(), np.float32)
    return openvino.Model([openvino.opset13.result(ends(_steps(d, inner)))], [inner], "body"), inner


@recipe
def branched(d: Draw) -> Any:
    from openvino import opset13

    x = d.value((1, 2, 3, 4))
    flag = d.given(np.array(d.chance()), "bool", 0.7)
    axis = opset13.constant([d.axis(len(shape_of(x)))])
    end: Callable[[Any], Any] = d.one((lambda value: value, lambda value: opset13.reduce_sum(value, axis, False)))
    (first, taken), (second, left) = _body(d, x, end), _body(d, x, end)
    made = opset13.if_op(flag)
    made.set_then_body(first)
    made.set_else_body(second)
    made.set_input(x, taken, left)
    return [made.set_output(first.results[0], second.results[0])]


@recipe
def iterated(d: Draw) -> Any:
    """Parts of an axis are computed with what was made of the one before."""
    import openvino
    from openvino import opset13

    x = d.value((1, 2, 3, 4), fit=lambda dims: min(dims) > 0)
    dims = shape_of(x)
    axis = d.number(0, len(dims) - 1)
    start, step, last = d.one(((0, 1, -1), (-1, -1, 0)))
    sizes = [1 if k == axis else dim for k, dim in enumerate(dims)]
    part, so_far = (opset13.parameter(sizes, np.float32) for _ in range(2))
    total = opset13.add(_steps(d, part), opset13.multiply(so_far, opset13.constant(np.float32(0.5))))
    body = openvino.Model([opset13.result(total)], [part, so_far], "body")
    iterator = opset13.tensor_iterator()
    iterator.set_function(body)
    iterator.set_sliced_input(part, x, start, step, 1, last, axis)
    iterator.set_merged_input(so_far, d.like(sizes), body.results[0].output(0))
    found = body.results[0].output(0)
    made = [iterator.get_iter_value(found, -1)] if d.chance(0.6) else []
    if not made or d.chance():
        made.append(iterator.get_concatenated_slices(found, start, step, 1, last, axis))
    return made


@recipe
def looped(d: Draw) -> Any:
    """So many rounds, or until a sum is large enough."""
    import openvino
    from openvino import opset13

    x = d.value((0, 1, 2, 3))
    if len(shape_of(x)) and min(shape_of(x)) == 0:
        raise Unfit
    value = opset13.parameter(shape_of(x), np.float32)
    after = opset13.add(_steps(d, value), opset13.constant(np.float32(1)))
    total = opset13.reduce_sum(opset13.abs(after), opset13.constant(np.arange(len(shape_of(x)))), False)
    going = opset13.less(total, opset13.constant(np.float32(d.one((5, 20, 1000)))))
    going = going if d.chance() else opset13.constant(np.array(True))
    body = openvino.Model([opset13.result(going), opset13.result(after)], [value], "body")
    loop = opset13.loop(d.whole(d.number(1, 4), 0.3), d.constant(np.array(True)))
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(value, x, body.results[1].output(0))
    return [loop.get_iter_value(body.results[1].output(0), -1)]

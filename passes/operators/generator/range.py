"""Range, which opset 11 brought; 16-bit floats came (27)."""

from __future__ import annotations

from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size, never_negative
from opshift.passes.operators.shared.recipes import carrier_casts
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto
_WRITTEN_OUT = 1 << 20  # numbers: more are counted when the model runs
_SMALL = 1 << 24  # a delta of which no memory holds as many numbers as lie more than int64 apart


@says("Replaced Range by start + delta * (0, 1, 2, ...)")
def range_by_sums(node: Node) -> str:
    held = [node.scope.array(name) for name in node.inputs]
    elem_type = node.elem_type()
    parts = [value.reshape(-1)[0] for value in held if value is not None]
    if len(parts) == len(held):
        start, limit, delta = map(float, parts)
        if not delta or abs(limit - start) <= _WRITTEN_OUT * abs(delta):
            return _write_out(node, parts, elem_type)
    return _of_floats(node, elem_type) if elem_type in (T.FLOAT, T.DOUBLE) else _of_integers(node, elem_type)


def _write_out(node: Node, parts: list[Any], elem_type: int) -> str:
    import numpy as np

    start, limit, delta = parts
    if not delta:
        raise CannotConvert(node, "delta is 0")
    if elem_type in (T.FLOAT, T.DOUBLE):
        number = max(int(np.ceil(float(limit - start) / float(delta))), 0)
        values = start + np.arange(number, dtype=start.dtype) * delta
        steps = np.add.accumulate(np.concatenate([[start], np.full(max(number - 1, 0), delta, start.dtype)]))
        if not np.array_equal(values, steps[:number]):
            node.close("multiplies by delta, where runtimes may add it up")
        return node.build.constant(values, elem_type)
    return node.build.constant(np.array(range(int(start), int(limit), int(delta)), dtype=start.dtype), elem_type)


def _of_integers(node: Node, elem_type: int) -> str:
    """start + delta * count(max(ceil((limit - start) / delta), 0)), in int64; only differences may go beyond it"""
    build = node.build
    start, limit, delta = (_number(node, index) for index in range(3))
    if delta == 0:
        raise CannotConvert(node, "delta is 0")
    number = apart = limit if start == 0 else build.Sub(limit, start)
    if isinstance(delta, str) or abs(delta) > _SMALL:
        number = _steps(build, start, limit, apart, delta)
        number = build.Mul(number, build.Cast(_beyond_zero(build, number), to=T.INT64))
    elif start != 0 or delta != 1 or not never_negative(node.scope, node.input(1)):
        if abs(delta) > 1:
            number = build.Div(build.Add(apart, delta - (1 if delta > 0 else -1)), delta)
        elif delta < 0:
            number = build.Neg(apart)
        ahead = build.emit("Greater" if delta > 0 else "Less", [limit, start])
        number = build.Mul(number, build.Cast(ahead, to=T.INT64))
    result = flat_indices.count(build, number)
    result = build.Mul(result, delta) if delta != 1 else result
    result = build.Add(result, start) if start != 0 else result
    return result if elem_type == T.INT64 else str(build.Cast(result, to=elem_type))


def _steps(build: Builder, start: Size, limit: Size, apart: Size, delta: Size) -> str:
    """ceil((limit - start) / delta): doubles tell the nearest integer; what is left of sums that wrap fits."""
    far, step = (build.Cast(number, to=T.DOUBLE) for number in (limit, delta))
    if start != 0:
        far = build.Sub(far, build.Cast(start, to=T.DOUBLE))
    nearest = build.Cast(build.Floor(build.Add(build.Div(far, step), build.constant(0.5, T.DOUBLE))), to=T.INT64)
    left = build.Cast(build.Sub(apart, build.Mul(nearest, delta)), to=T.DOUBLE)
    return str(build.Add(nearest, build.Cast(_beyond_zero(build, build.Mul(left, step)), to=T.INT64)))


def _number(node: Node, index: int) -> Size:
    held, name = node.scope.array(node.input(index)), node.input(index)
    if held is not None:
        return int(held.reshape(-1)[0])
    return name if node.elem_type(index) == T.INT64 else str(node.build.Cast(name, to=T.INT64))


def _beyond_zero(build: Builder, number: Size) -> str:
    """Whether a number is above 0; its sign survives a cast to float, which any version compares."""
    return str(build.Greater(build.Cast(number, to=T.FLOAT), build.constant(0.0, T.FLOAT)))


def _of_floats(node: Node, elem_type: int) -> str:
    build, (start, limit, delta) = node.build, node.inputs
    node.close("multiplies by delta, where runtimes may add it up")
    ahead, step = (build.Cast(name, to=T.DOUBLE) for name in (build.Sub(limit, start), delta))
    number = build.Cast(build.Ceil(build.Div(ahead, step)), to=T.INT64)
    number = build.Mul(number, build.Cast(_beyond_zero(build, number), to=T.INT64))
    counted = build.Cast(flat_indices.count(build, number), to=elem_type)
    return str(build.Add(build.Mul(counted, delta), start))


@says("Computed Range in the type that stash_type names, and cast the result")
def count_in_stash_type(node: Node) -> Replacement:
    stash, elem_type = node.attributes.pop("stash_type", T.FLOAT), node.elem_type()
    if elem_type not in (T.FLOAT16, T.BFLOAT16):
        return None
    if stash not in (T.FLOAT, T.DOUBLE):
        raise CannotConvert(node, f"stash_type={stash}", supported="float and double")
    return carrier_casts({elem_type: stash})(node)


changed("Range", 11, Pair(down=range_by_sums))
changed("Range", 27, Pair(down=count_in_stash_type))

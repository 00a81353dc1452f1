"""Values that are looked up by keys: the places of elements among the keys, and a table that ends with the default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node

T = TensorProto
OPSET = 19  # from which on strings are equal
COMPARED = 256  # numbers that an element is compared with; among more, it is searched for by halves


def look_up(
    node: Node, keys: Sequence[Any], key_kind: int, values: Sequence[Any], value_kind: int, default: Any
) -> str:
    """The values of the node's input, where each key stands once; what is no key becomes the default."""
    build, x, elem_type = node.build, node.input(0), node.elem_type()
    whole = elem_type in (T.INT64, T.INT32, T.INT16)
    if whole:
        x = recast(build, x, elem_type, T.INT64)
        key_kind = T.INT64
    table = build.constant([*values, default], value_kind)
    numbers = [key for key in keys if key == key]
    if whole and sorted(keys) == list(range(len(keys))):
        order = [values[keys.index(place)] for place in range(len(keys))]
        table = build.constant([*order, default], value_kind)
        inside = build.And(
            build.GreaterOrEqual(x, build.constant(0, T.INT64)), build.Less(x, build.constant(len(keys), T.INT64))
        )
        places = build.Where(inside, x, build.constant(len(keys), T.INT64))
    elif key_kind == T.STRING or len(keys) <= COMPARED:
        places = _compare(node, x, keys, key_kind)
    else:
        places = _search(node, x, keys, key_kind)
    if len(numbers) < len(keys):
        nan = next(place for place, key in enumerate(keys) if key != key)
        places = build.Where(build.IsNaN(x), build.constant(nan, T.INT64), places)
    return str(build.Gather(table, places, axis=0))


def _compare(node: Node, x: str, keys: Sequence[Any], elem_type: int) -> str:
    """Find the index of each element among the keys by Equal; the last index, the default's, if no key fits."""
    build, count = node.build, len(keys)
    equal = build.Cast(build.Equal(build.Unsqueeze(x, [-1]), build.constant(list(keys), elem_type)), to=T.FLOAT)
    away = build.MatMul(equal, build.constant(np.arange(count) - count, T.FLOAT))
    return str(build.Cast(build.Add(away, build.constant(float(count), T.FLOAT)), to=T.INT64))


def _search(node: Node, x: str, keys: Sequence[Any], elem_type: int) -> str:
    """The last of the sorted keys that is not larger, found by halves, if it is equal."""
    build, count = node.build, len(keys)
    dtypes: dict[int, Any] = {T.INT64: np.int64, T.FLOAT: np.float32, T.DOUBLE: np.float64}
    array = np.asarray(keys, dtypes[elem_type])
    order = np.argsort(array, kind="stable")[: int((array == array).sum())]
    size = 1 << (len(order) - 1).bit_length()
    order = np.concatenate([order, np.full(size - len(order), order[-1])])
    table = build.constant(array[order], elem_type)
    flat, places, step = build.Reshape(x, [-1]), "", size // 2
    while step:
        further = build.Add(places, build.constant(step, T.INT64)) if places else build.constant([step], T.INT64)
        reached = build.LessOrEqual(build.Gather(table, further, axis=0), flat)
        moved = build.Mul(build.Cast(reached, to=T.INT64), build.constant(step, T.INT64))
        places, step = build.Add(places, moved) if places else moved, step // 2
    found = build.Equal(build.Gather(table, places, axis=0), flat)
    original = build.Gather(build.constant(order, T.INT64), places, axis=0)
    return str(build.Reshape(build.Where(found, original, build.constant(count, T.INT64)), build.Shape(x)))

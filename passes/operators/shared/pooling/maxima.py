"""Where in its data a MaxPool finds its maxima, before it could tell: the elements of each window are compared."""

from __future__ import annotations

from math import prod
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.pooling.padded import Window, windows
from opshift.passes.rewrite.node import Node

T = TensorProto
Array = Any  # numpy arrays of integers

MOST = 2**20
"""The most places that are written as constants."""


def maxima_and_places(node: Node) -> list[str]:
    """The largest element of each window, and the place in the flattened data of the first that is."""
    build, every = node.build, windows(node)
    sizes = [w.size for w in every if w.size is not None]
    if len(sizes) < len(every):
        raise CannotConvert(node, "the indices of MaxPool are used, and the size of the data is unknown")
    counts = [(size + w.begin + w.end - w.extent) // w.stride + 1 for size, w in zip(sizes, every, strict=True)]
    kernel = prod(w.kernel for w in every)
    if min(counts) < 1 or prod(counts) * kernel > MOST:
        raise CannotConvert(
            node,
            f"the pooling has {counts} windows of {kernel} elements, which are too many to gather",
            supported=f"{MOST} elements in all",
        )
    batch, channels, *_ = flat_indices.sizes(node, node.input(0))
    elements = _elements(node, every, counts)
    data = build.Reshape(node.input(0), flat_indices.vector(build, [0, 0, prod(sizes)]))
    compared = build.Gather(data, build.constant(elements, T.INT64), axis=2)
    chosen = build.ArgMax(compared, axis=3, keepdims=0)
    if node.attributes.get("storage_order", 0):
        elements = np.ravel_multi_index(np.unravel_index(elements, sizes), sizes, order="F")
    rows = build.constant(np.arange(prod(counts)) * kernel, T.INT64)
    places = build.Gather(build.constant(elements.reshape(-1), T.INT64), build.Add(chosen, rows))
    image = prod(sizes)
    first = flat_indices.places(build, [batch, channels, 1], [flat_indices.times(build, channels, image), image, 0])
    places = places if first == 0 else build.Add(places, first)
    maxima = build.ReduceMax(compared, axes=[3], keepdims=0)
    return [build.Reshape(result, [0, 0, *counts]) for result in (maxima, places)]


def _elements(node: Node, every: list[Window], counts: list[int]) -> Array:
    """For each window the places of its elements; the padding repeats the first element that is data."""
    sizes, kernels = [w.size or 0 for w in every], [w.kernel for w in every]
    window = np.indices(counts).reshape(len(every), -1, 1)
    element = np.indices(kernels).reshape(len(every), 1, -1)
    strides, dilations, begins = (
        np.array([getattr(w, name) for w in every]).reshape(-1, 1, 1) for name in ("stride", "dilation", "begin")
    )
    at = window * strides + element * dilations - begins
    inside = ((at >= 0) & (at < np.array(sizes).reshape(-1, 1, 1))).all(axis=0)
    if not inside.any(axis=1).all():
        raise CannotConvert(node, "a pooling window lies in the padding alone", supported="windows that hold data")
    places = np.ravel_multi_index(tuple(at), sizes, mode="clip")
    first = np.take_along_axis(places, inside.argmax(axis=1)[:, None], axis=1)
    return np.where(inside, places, first)

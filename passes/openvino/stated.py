"""Sizes that a network states of what has as many elements as the run finds."""

from __future__ import annotations

from dataclasses import replace

from opshift.passes.openvino.network import Body, End, Entry

FIRST_OF_ITS_COUNT = 5
"""The version of NonMaxSuppression from which on it states no more than how many boxes it may select."""


def forget_sizes(body: Body, outer: bool = False) -> None:
    """Older versions state the largest number, and so does what computes with the boxes: only ranks are known of that.

    `outer` is whether what the body is given is such a thing.
    """
    unknown: set[str] = set()
    for entry in body.layers:
        if entry.type == "Const":
            continue
        given = outer or any(body.edges[End(entry.id, port.id)].layer in unknown for port in entry.inputs)
        for inner in entry.bodies.values():
            forget_sizes(inner, given)
        if given or _is_counted(entry):
            unknown.add(entry.id)
            entry.outputs[:] = [replace(port, dims=(-1,) * len(port.dims)) for port in entry.outputs]


def _is_counted(entry: Entry) -> bool:
    """Whether a layer, or one inside of it, selects boxes and states their largest number."""
    if entry.type == "NonMaxSuppression":
        return 0 < entry.version < FIRST_OF_ITS_COUNT
    return any(_is_counted(inner) for body in entry.bodies.values() for inner in body.layers)

"""Layers that reduce axes."""

from __future__ import annotations

from opshift.functions import OPENVINO
from opshift.passes.openvino_ir.layer import Layer, Made, Unmapped, layer

REDUCE = {
    "ReduceMax": "ReduceMax",
    "ReduceMean": "ReduceMean",
    "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd",
    "ReduceSum": "ReduceSum",
    "ReduceLogicalAnd": "ReduceMin",
    "ReduceLogicalOr": "ReduceMax",
}


def _has_axes(of: Layer) -> bool:
    """Whether there is at least one axis; raises `Unmapped` where that is only known at run time."""
    held = of.constant(1)
    return bool(held) if held is not None else of.length(1) > 0


@layer(*REDUCE)
def reduce(of: Layer) -> Made:
    """Without axes the data stay as they are."""
    keep = int(of.flag("keep_dims", False))
    return str(
        of.build.emit(REDUCE[of.type], [of.input(0), of.vector(1)], {"keepdims": keep, "noop_with_empty_axes": 1})
    )


@layer("ReduceL1")
def reduce_l1(of: Layer) -> Made:
    attributes = {"keep_dims": int(of.flag("keep_dims", False))}
    return str(of.build.emit("ReduceL1", [of.input(0), of.vector(1)], attributes, domain=OPENVINO))


@layer("ReduceL2")
def reduce_l2(of: Layer) -> Made:
    if not _has_axes(of):
        raise Unmapped("no axes; at least one could be expressed")
    return str(of.build.ReduceL2(of.input(0), of.vector(1), keepdims=int(of.flag("keep_dims", False))))


@layer("NormalizeL2")
def normalize_l2(of: Layer) -> Made:
    attributes = {"eps": of.number("eps"), "eps_mode": of.choice("eps_mode", ("add", "max"), "add")}
    return str(of.build.emit("NormalizeL2", [of.input(0), of.vector(1)], attributes, domain=OPENVINO))


@layer("CumSum")
def cumulative_sum(of: Layer) -> Made:
    flags = {name: int(of.flag(name, False)) for name in ("exclusive", "reverse")}
    axis = of.int64(1) if of.has(1) else 0
    return str(of.build.CumSum(of.input(0), axis, **flags))

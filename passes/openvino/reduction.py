"""Layers that reduce axes."""

from __future__ import annotations

from opshift.functions import OPENVINO
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer

REDUCE = {
    "ReduceMax": "ReduceMax",
    "ReduceMean": "ReduceMean",
    "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd",
    "ReduceSum": "ReduceSum",
    "ReduceLogicalAnd": "ReduceMin",
    "ReduceLogicalOr": "ReduceMax",
}


@layer(*REDUCE)
def reduce(of: Layer) -> Made:
    """Without axes the data stay as they are."""
    _check_length(of)
    keep = int(of.flag("keep_dims", False))
    return str(
        of.build.emit(REDUCE[of.type], [of.input(0), of.vector(1)], {"keepdims": keep, "noop_with_empty_axes": 1})
    )


def check_axes(of: Layer) -> None:
    """What is computed without axes is not what the specification says."""
    if of.constant(1) == [] or 0 in (of.dims(1) or ()):
        raise Unmapped("no axes are given", supported="at least one")
    _check_length(of)


def _is_some(of: Layer) -> bool:
    """Whether there is known to be an axis."""
    dims = of.dims(1)
    return of.constant(1) is not None or (dims is not None and -1 not in dims)


def _check_length(of: Layer) -> None:
    if not _is_some(of):
        of.close("the number of axes is dynamic; without any, OpenVINO's result differs")


@layer("ReduceL1")
def reduce_l1(of: Layer) -> Made:
    check_axes(of)
    keep, held, dims = of.flag("keep_dims", False), of.constant(1), of.dims()
    made = str(of.build.emit("ReduceL1", [of.input(0), of.vector(1)], {"keep_dims": int(keep)}, domain=OPENVINO))
    if dims is None or (held is None and not keep):
        return made
    gone = range(len(dims)) if held is None else [of.normal(axis, len(dims)) for axis in held]
    left = [None if axis in gone or dim < 0 else dim for axis, dim in enumerate(dims) if keep or axis not in gone]
    return of.build.set_type(made, of.elem_type(), left)


@layer("ReduceL2")
def reduce_l2(of: Layer) -> Made:
    """Data stay as they are where the run tells no axes; ONNX reduces all of them there, or takes magnitudes."""
    check_axes(of)
    b, data, axes, keep = of.build, of.input(0), of.vector(1), int(of.flag("keep_dims", False))
    if _is_some(of):
        return str(b.ReduceL2(data, axes, keepdims=keep))
    graphs = {
        "then_branch": b.branch(lambda _: data, "unreduced"),
        "else_branch": b.branch(lambda inner: str(inner.ReduceL2(data, axes, keepdims=keep)), "reduced"),
    }
    made, dims = b.emit("If", [b.Equal(b.Size(axes), 0)], graphs), of.dims()
    return b.set_type(made, of.elem_type(), [None] * len(dims) if keep and dims is not None else None)


@layer("NormalizeL2")
def normalize_l2(of: Layer) -> Made:
    attributes = {"eps": of.number("eps"), "eps_mode": of.choice("eps_mode", ("add", "max"), "add")}
    check_axes(of)
    made = str(of.build.emit("NormalizeL2", [of.input(0), of.vector(1)], attributes, domain=OPENVINO))
    return of.build.set_type(made, of.elem_type(), of.build.scope.shape(of.input(0)))


@layer("CumSum")
def cumulative_sum(of: Layer) -> Made:
    flags = {name: int(of.flag(name, False)) for name in ("exclusive", "reverse")}
    axis = of.int64(1) if of.has(1) else 0
    return str(of.build.CumSum(of.input(0), axis, **flags))

"""The reduce family: axes moved from an attribute to an input, and types came and went."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.inlining.expander import instantiate
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import (
    axes_inside,
    axes_to_input,
    carrier_casts,
    constant_axes,
    mirror,
    nonnegative_axes,
)
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined, same
from opshift.passes.rewrite.says import says

from opshift import functions

T = TensorProto
# What each operator does to a single element, which is all that is left of it when no axis is reduced.
SINGLE = {
    "ReduceL1": "Abs",
    "ReduceL2": "Abs",
    "ReduceLogSum": "Log",
    "ReduceLogSumExp": "Identity",
    "ReduceMax": "Identity",
    "ReduceMean": "Identity",
    "ReduceMin": "Identity",
    "ReduceProd": "Identity",
    "ReduceSum": "Identity",
    "ReduceSumSquare": "Square",
}
IN_DOUBLE = "the logarithm of integers is computed in double"
# Operators that reduce one axis after another to the same result as all at once.
AXIS_BY_AXIS = {"ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"}
WITH_INTEGERS: dict[int, int] = dict.fromkeys((T.INT32, T.INT64, T.UINT32, T.UINT64), T.DOUBLE)
WIDE: dict[int, int] = {T.FLOAT16: T.FLOAT, T.BFLOAT16: T.FLOAT, **WITH_INTEGERS}


@says("Moved axes of the reduction from input to attribute")
def axes_to_attribute(node: Node) -> Replacement:
    axes = constant_axes(node)
    if axes is None:
        return _runtime_axes(node)
    noop = node.attributes.pop("noop_with_empty_axes", 0)
    node.set_input(1, "")
    if axes:
        node.attributes["axes"] = axes
    elif noop:
        return _single(node)
    return None


def _single(node: Node) -> str:
    x, kind = node.input(0), SINGLE[node.op_type]
    if kind == "Square":
        return str(node.build.Mul(x, x))
    if node.op_type == "ReduceLogSumExp" and node.elem_type() not in WITH_INTEGERS:
        return str(node.build.Add(x, node.build.constant(0.0, node.elem_type())))  # log(exp(-0.0)) is 0.0
    if kind == "Log" and node.elem_type() in WITH_INTEGERS:
        wide = node.build.Log(node.build.Cast(x, to=T.DOUBLE))
        return str(node.build.Cast(wide, to=node.elem_type()))
    if kind == "Abs" and node.elem_type() in (T.UINT32, T.UINT64):
        kind = "Identity"
    if node.op_type == "ReduceL2":
        node.close("does not overflow or underflow as squares do")
    return str(node.build.emit(kind, [x]))


def _runtime_axes(node: Node) -> Replacement:
    if node.op_type in AXIS_BY_AXIS:
        return _axis_by_axis(node)
    return _mean(node) if node.op_type == "ReduceMean" else _as_sum(node)


def _axis_by_axis(node: Node) -> str:
    """From the last axis to the first, so that dropping one leaves the numbers of the others as they are."""
    rank, elem_type, keepdims = node.rank(), node.elem_type(), node.attributes.get("keepdims", 1)
    build, value, data_type = node.build, node.input(0), elem_type
    if node.op_type not in ("ReduceMax", "ReduceMin"):
        node.close("reduces dynamic axes one after another")
    if node.op_type == "ReduceLogSumExp" and data_type in WITH_INTEGERS:  # cut to an integer once, not at each axis
        elem_type = T.DOUBLE
        value = build.Cast(value, to=elem_type)
    given = build.Reshape(node.input(1), [-1])
    empty = None if node.attributes.get("noop_with_empty_axes", 0) else build.Equal(build.Size(given), 0)
    for axis in reversed(range(rank)):
        listed = build.Or(build.Equal(given, axis), build.Equal(given, axis - rank))
        chosen = build.Cast(build.ReduceSum(build.Cast(listed, to=T.INT32), keepdims=0), to=T.BOOL)
        if empty is not None:
            chosen = build.Or(chosen, empty)
        value = _reduce_if(build, chosen, node.op_type, value, axis, keepdims, elem_type)
    return value if elem_type == data_type else str(build.Cast(value, to=data_type))


def _reduce_if(build: Builder, chosen: str, op: str, value: str, axis: int, keepdims: int, elem_type: int) -> str:
    def reduce(branch: Builder) -> str:
        return str(branch.emit(op, [value], {"axes": [axis], "keepdims": keepdims}))

    def keep(branch: Builder) -> str:
        return str(branch.Identity(value))

    result = build.If(
        chosen,
        then_branch=build.branch(reduce, "reduced", elem_type),
        else_branch=build.branch(keep, "unchanged", elem_type),
    )
    return build.set_type(result, elem_type)


def _mean(node: Node) -> str:
    """sum / count, where count is the number of elements that went into each sum."""
    node.close("dynamic axes: the mean is a sum divided by a count")
    build, elem_type = node.build, node.elem_type()
    wide = WIDE.get(elem_type, elem_type)
    data = node.input(0) if wide == elem_type else build.Cast(node.input(0), to=wide)
    total = build.again(node.proto, [data, node.input(1)])
    build.nodes[-1].op_type = "ReduceSum"
    sizes = [build.Cast(build.Size(value), to=wide) for value in (data, total)]
    mean = build.Div(total, build.Div(*sizes))
    return str(mean if wide == elem_type else build.Cast(mean, to=elem_type))


def _as_sum(node: Node) -> Replacement:
    """The definition of the operator over ReduceSum, which takes its axes as an input from opset 13 on."""
    form = functions.find("", node.op_type, node.elem_type())
    if form is None:
        raise CannotConvert(
            node, "older opsets take axes as an attribute, but axes is dynamic here", supported="constant axes"
        )
    node.grade = form.grade
    node.build.nodes += instantiate(node, form)
    return node.outputs


@says("Reduced int8 and uint8 in int32, or in float32 if the reduction may be empty")
def small_integers(node: Node) -> Replacement:
    if node.elem_type() != T.INT8:
        return carrier_casts({T.UINT8: T.INT32})(node)
    dims = node.scope.shape(node.input(0))
    if dims is not None and all(isinstance(dim, int) and dim > 0 for dim in dims):
        return carrier_casts({T.INT8: T.INT32})(node)
    build = node.build
    wide = build.again(node.proto, [build.Cast(node.input(0), to=T.FLOAT), *node.inputs[1:]])
    limits = [build.constant(float(limit), T.FLOAT) for limit in (-128, 127)]  # of an empty reduction
    return str(build.Cast(build.Clip(wide, *limits), to=T.INT8))


@says("Reduced integers in double")
def logarithm_in_double(node: Node) -> Replacement:
    if node.op_type == "ReduceLogSum" or node.elem_type() not in WITH_INTEGERS:
        return carrier_casts(WITH_INTEGERS, why=IN_DOUBLE)(node)
    node.close(IN_DOUBLE)  # log(exp(2.0)), the operator without a kernel, is below 2
    form = functions.find("", node.op_type, node.elem_type())
    assert form is not None, "there is one of each type"
    node.build.nodes += instantiate(node, form)
    return node.outputs


_DEFAULTS = {"keepdims": 1, "noop_with_empty_axes": 0}


@says("Replaced ReduceMin by -ReduceMax(-x), for integers by -1 - ReduceMax(-1 - x)")
def mirrored_maximum_along_axes(node: Node) -> str:
    build, given, elem_type = node.build, node.attributes, node.elem_type()
    options = {name: given.get(name, default) for name, default in _DEFAULTS.items()}
    inputs = [mirror(build, node.input(0), elem_type), *node.inputs[1:]]
    return mirror(build, str(build.emit("ReduceMax", inputs, options)), elem_type)


AXES_INPUT = Pair(up=axes_to_input, down=axes_to_attribute)
EXTREMA = ["ReduceMax", "ReduceMin"]
OTHERS = [op for op in SINGLE if op != "ReduceSum"]

changed(SINGLE, 11, Pair(up=axes_inside(), down=nonnegative_axes))
changed(EXTREMA, 12, Pair(up=axes_inside(), down=small_integers))
changed("ReduceSum", 13, AXES_INPUT)
same(OTHERS, 13, "bfloat16 added; the text states what an empty reduction yields, as runtimes did before")
changed(OTHERS, 18, AXES_INPUT)
changed(EXTREMA, 20, Pair(down=carrier_casts({T.BOOL: T.UINT8})))
changed(["ReduceLogSum", "ReduceLogSumExp"], 28, Pair(up=logarithm_in_double))
defined("ReduceMin", mirrored_maximum_along_axes, opset=18)

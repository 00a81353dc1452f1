"""CumSum and CumProd, which opsets 11 and 26 brought: a Scan along the axis adds or multiplies in the same order."""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared.recipes import carrier_casts, unless_empty
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
HALVES: dict[int, int] = {T.BFLOAT16: T.FLOAT, T.FLOAT16: T.FLOAT}
OPERATION = {"CumSum": "Add", "CumProd": "Mul"}


@says("Replaced CumSum or CumProd by a Scan along the axis; for a dynamic axis, by one Scan for each axis")
def running_results(node: Node) -> str:
    rank, held = node.rank(), node.scope.array(node.input(1))
    if held is not None and held.size == 1:
        axis = int(held.reshape(-1)[0])
        if not -rank <= axis < rank:
            raise CannotConvert(node, f"axis {axis} is out of range for rank {rank}")
        dims = node.scope.shape(node.input(0)) or []
        if 0 in dims:
            return node.input(0)
        if all(isinstance(dim, int) for dim in dims):
            return _along(node, node.build, axis % rank)
        return unless_empty(node, lambda inner: _along(node, inner, axis % rank), "scanned")
    return unless_empty(node, lambda inner: _along_any(node, inner), "scanned")


def _along_any(node: Node, build: Builder) -> str:
    axis = build.Reshape(build.Cast(node.input(1), to=T.INT64), build.constant([], T.INT64))
    return _along_one_of(node, build, axis, list(range(node.rank())))


def _along_one_of(node: Node, build: Builder, axis: str, axes: list[int]) -> str:
    first, *others = axes
    if not others:
        return _along(node, build, first)
    chosen = build.Or(build.Equal(axis, first), build.Equal(axis, first - node.rank()))
    elem_type = node.elem_type()
    then = build.branch(lambda inner: _along(node, inner, first), "along_this", elem_type)
    other = build.branch(lambda inner: _along_one_of(node, inner, axis, others), "along_another", elem_type)
    return build.set_type(
        build.If(chosen, then_branch=then, else_branch=other), elem_type, node.scope.shape(node.input(0))
    )


def _along(node: Node, build: Builder, axis: int) -> str:
    elem_type, backwards = node.elem_type(), int(node.attributes.get("reverse", 0))
    names = [node.scope.context.names.fresh(f"{node.op_type}/{part}") for part in ("so_far", "next", "after", "now")]
    so_far, item, after, now = names
    body = GraphProto(name="accumulate")
    kept = so_far if node.attributes.get("exclusive", 0) else after
    body.node.append(NodeProto(op_type=OPERATION[node.op_type], input=[so_far, item], output=[after]))
    body.node.append(NodeProto(op_type="Identity", input=[kept], output=[now]))
    element = tensor_type(elem_type, [None] * (node.rank() - 1))  # onnxruntime's Scan runs nothing of unknown rank
    for name in (so_far, item):
        body.input.add(name=name).type.CopyFrom(element)
    for name in (after, now):
        body.output.add(name=name).type.CopyFrom(element)
    attributes = {
        "body": make_attribute("body", body),
        "num_scan_inputs": 1,
        "scan_input_axes": [axis],
        "scan_output_axes": [axis],
        "scan_input_directions": [backwards],
        "scan_output_directions": [backwards],
    }
    dims = node.scope.shape(node.input(0)) or []
    results = build.emit("Scan", [_start(node, build, axis), node.input(0)], attributes, outputs=2)
    build.set_type(results[0], elem_type, dims[:axis] + dims[axis + 1 :])
    return build.set_type(results[1], elem_type, dims)


def _start(node: Node, build: Builder, axis: int) -> str:
    """Zeros or ones in the shape of one element along the axis."""
    value = int(node.op_type == "CumProd")
    others = [k for k in range(node.rank()) if k != axis]
    dims = node.scope.shape(node.input(0)) or []
    static = [dim for k in others if isinstance(dim := dims[k], int)]
    if len(static) == len(others) and prod(static) <= tensors.SMALL:
        return str(build.constant(np.full(static, value), node.elem_type()))
    shape = static if len(static) == len(others) else build.Gather(build.Shape(node.input(0)), others)
    return str(build.ConstantOfShape(shape, value=tensors.tensor([value], node.elem_type())))


changed("CumSum", 11, Pair(down=running_results))
changed("CumSum", 14, Pair(down=carrier_casts(HALVES, why="16-bit floats are summed in float")))
changed("CumProd", 26, Pair(down=running_results))

"""Infer types and shapes of one node, which a conversion added."""

from __future__ import annotations

from functools import cache
from typing import Any

from opshift.passes.analysis.callers import refers
from opshift.passes.analysis.claims import ENTERED
from opshift.passes.analysis.element_types import elem_type
from opshift.passes.analysis.inferring import stand_ins
from opshift.passes.analysis.inferring.cases import BY_OP
from opshift.passes.analysis.inferring.weightless import shorten
from opshift.passes.analysis.knowledge import KnownBody
from opshift.passes.model import installed, schemas, tensors
from opshift.passes.model.messages import AttributeProto, NodeProto, TensorProto, TypeProto, normalize_domain
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import Dim, elem_type_of, tensor_type

SCAN_WITHOUT_BATCH = 9  # the opset from which on Scan has neither a batch axis nor sequence_lens


def infer_node(node: NodeProto, opset: int, scope: KnownBody) -> None:
    import onnx
    import onnx.shape_inference

    if node.op_type in ENTERED and not node.domain and scope.context.descended.isdisjoint(node.output):
        _INSIDE[node.op_type](node, opset, scope)
    if node.domain in schemas.VENDORS and (node.domain, node.op_type) not in scope.context.local:
        _infer_stand_ins(node, scope)
        return
    if not schemas.is_onnx_domain(node.domain) or any(True for _ in subgraphs(node)):
        return
    installed.check_inference([(node.domain, node.op_type)], {normalize_domain(node.domain): opset})
    cases = BY_OP.get(node.op_type, ()) if not normalize_domain(node.domain) else ()
    for case in cases:
        node = case.node(node) if case.node is not None else node
    types = {
        name: shorten(found) for name in node.input if name and (found := _find_known_type(scope, name)) is not None
    }
    data = {}
    for name in types:
        held = scope.tensor(name, tensors.SMALL)
        if held is not None:
            data[name] = held
    try:
        domain = normalize_domain(node.domain)
        for case in cases:
            opset = case.opset(node, opset) if case.opset is not None else opset
            types.update(case.inputs(node, types) if case.inputs is not None else {})
        schema = _schema(node.op_type, opset, domain)
        imports = [onnx.OperatorSetIdProto(domain=domain, version=opset)]
        inferred = onnx.shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=imports)
        if opset < 6 and node.op_type == "Cast":
            inferred = _infer_old_cast(node, types)
    except Exception:  # inference only ever adds knowledge; a node it cannot judge stays unknown
        return
    for case in cases:
        if case.find_wrong is not None and case.may_be_wrong is not None and case.may_be_wrong(node, opset):
            wrong = case.find_wrong(node, {**types, **inferred}, False)
            inferred = {name: value_type for name, value_type in inferred.items() if name not in wrong}
    if refers(node):
        inferred = _without_references(node, inferred)
    scope.typed.update({name: value_type for name, value_type in inferred.items() if name in node.output})


@cache
def _schema(op: str, opset: int, domain: str) -> Any:
    """Get a schema from onnx; cached, as onnx copies it with all its texts each time."""
    import onnx.defs

    return onnx.defs.get_schema(op, opset, domain)


def _infer_stand_ins(node: NodeProto, scope: KnownBody) -> None:
    """Infer the outputs of a vendor operator by nodes of ONNX with the same output types."""
    import onnx.shape_inference

    elem_types = {name: elem_type(scope, name) for name in node.output if name}
    scope.seed(list(elem_types), [tensor_type(data_type) if data_type else None for data_type in elem_types.values()])
    if refers(node):
        return
    types = {
        name: shorten(found) for name in node.input if name and (found := _find_known_type(scope, name)) is not None
    }
    try:
        for made in stand_ins.stand_ins(node, types):
            schema = _schema(made.op_type, stand_ins.OPSET, "")
            types.update(onnx.shape_inference.infer_node_outputs(schema, made, types))
    except Exception:  # as above
        return
    scope.typed.update({name: types[name] for name in node.output if name in types})


_TYPING = frozenset(["dtype", "output_datatype", "output_dtype", "stash_type", "to"])


def _without_references(node: NodeProto, inferred: dict[str, TypeProto]) -> dict[str, TypeProto]:
    """Drop what was inferred from attributes that callers of the function give: onnx takes them for 0."""
    referred = {a.name for a in node.attribute if a.ref_attr_name and a.type != AttributeProto.FLOAT}
    if not _TYPING.isdisjoint(referred):
        return {}
    for value_type in inferred.values() if referred else ():
        if value_type.WhichOneof("value") == "tensor_type":
            value_type.tensor_type.ClearField("shape")
    return inferred


def _infer_old_cast(node: NodeProto, types: dict[str, TypeProto]) -> dict[str, TypeProto]:
    """Infer Cast below opset 6, where `to` is a string, and onnx infers nothing."""
    made = TypeProto()
    if node.input[0] in types:
        made.CopyFrom(types[node.input[0]])
    made.tensor_type.elem_type = TensorProto.DataType.Value(node.attribute[0].s.decode())
    return {node.output[0]: made}


def _infer_branches(node: NodeProto, opset: int, scope: KnownBody) -> None:
    """Infer what both branches of an If agree upon: the element type, the rank, single sizes."""
    yielded = []
    for graph, inner in scope.branches(node, opset):
        yielded.append([(inner.elem_type(value.name), inner.shape(value.name)) for value in graph.output])
    for name, found in zip(node.output, zip(*yielded, strict=True), strict=True):
        kinds = {elem_type for elem_type, _ in found}
        if len(kinds) == 1 and 0 not in kinds:
            scope.typed[name] = tensor_type(kinds.pop(), _common_shape([shape for _, shape in found]))


def _infer_loop(node: NodeProto, opset: int, scope: KnownBody) -> None:
    """Infer outputs of a new Loop: carried values keep the sizes that an iteration keeps; scan outputs get an axis."""
    body, carried = next(graph for _, _, graph in subgraphs(node)), max(len(node.input) - 2, 0)
    inner, arriving = scope.inside(body, opset), [value.name for value in body.input]
    inner.seed(arriving[:2], [tensor_type(TensorProto.INT64, []), tensor_type(TensorProto.BOOL, [])])
    started = [scope.type(name) for name in node.input[2:]]
    inner.seed(arriving[2:], [value_type and tensor_type(elem_type_of(value_type)) for value_type in started])
    for k, (name, value) in enumerate(zip(node.output, body.output[1:], strict=False)):
        elem_type, shape = inner.elem_type(value.name), inner.shape(value.name)
        if k < carried:
            shape = _common_shape([scope.shape(node.input[2 + k]), shape])
        else:
            shape = None if shape is None else [None, *shape]
        scope.seed([name], [tensor_type(elem_type, shape)])


def _infer_scan(node: NodeProto, opset: int, scope: KnownBody) -> None:
    """Infer outputs of a new Scan: states keep their shapes; scan outputs get an axis of the length of its inputs."""
    held = {attribute.name: attribute for attribute in node.attribute}
    body, scanned, batch = held["body"].g, held["num_scan_inputs"].i, int(opset < SCAN_WITHOUT_BATCH)
    operands = list(node.input)[batch:]
    states, known = len(operands) - scanned, [scope.shape(name) for name in operands]
    inner = scope.inside(body, opset)

    def axes(name: str) -> dict[int, int]:
        return dict(enumerate(held[name].ints)) if name in held else {}

    length: Dim = None
    elements: list[TypeProto] = []
    for k, (operand, shape) in enumerate(zip(operands, known, strict=True)):
        if shape is not None:
            shape = shape[batch:]
            if k >= states and shape:
                axis = axes("scan_input_axes").get(k - states, 0)
                length = shape[axis] if length is None else length
                shape = [dim for i, dim in enumerate(shape) if i != axis % len(shape)]
        elements.append(tensor_type(scope.elem_type(operand), shape))
    inner.seed([value.name for value in body.input], elements)
    first = next((shape[:1] for shape in known if shape), [None]) if batch else []
    for k, (name, value) in enumerate(zip(node.output, body.output, strict=False)):
        elem_type, shape = inner.elem_type(value.name), inner.shape(value.name)
        if shape is not None:
            if k >= states:
                axis = axes("scan_output_axes").get(k - states, 0) % (len(shape) + 1)
                shape = [*shape[:axis], length, *shape[axis:]]
            shape = first + shape
        scope.seed([name], [tensor_type(elem_type, shape)])


_INSIDE = {"If": _infer_branches, "Loop": _infer_loop, "Scan": _infer_scan}


def _common_shape(shapes: list[list[Dim] | None]) -> list[Dim] | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len({len(shape) for shape in known}) > 1:
        return None
    return [dims[0] if len(set(dims)) == 1 else None for dims in zip(*known, strict=True)]


def _find_known_type(scope: KnownBody, name: str) -> TypeProto | None:
    owner = scope.owner(name)
    if owner is not scope or scope.node_to_ask(name) is None:
        return scope.type(name)
    stated = scope.stated_type(name)
    scope.notice(name, stated)
    return stated


def is_known(value_type: TypeProto | None) -> bool:
    return value_type is not None and (
        value_type.WhichOneof("value") != "tensor_type" or value_type.tensor_type.HasField("shape")
    )

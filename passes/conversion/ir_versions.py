"""Choose and write the IR version: it follows the opset, unless a feature of the model needs a newer one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from opshift.passes.errors import Refusal
from opshift.passes.model import imports, schemas
from opshift.passes.model.editing.constants import in_nodes
from opshift.passes.model.editing.names import Names
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    normalize_domain,
)
from opshift.passes.model.traversal import Body, subgraphs
from opshift.passes.model.types import ELEMENTS, elem_type_of

_INITIALIZERS_NEED_NO_INPUT = 4


def choose_ir_version(model: ModelProto, targets: Mapping[str, int], asked: int | None) -> int:
    """Choose the IR version: the one that the user asks for, or the one released with the newest opset.

    Asked before a conversion, as functions need IR version 8.
    """
    if asked is not None:
        return asked
    imported = {normalize_domain(entry.domain): entry.version for entry in model.opset_import} | dict(targets)
    follows = {d: schemas.ir_version(d, v) for d, v in imported.items() if schemas.is_onnx_domain(d)}
    counted = [ir for domain, ir in follows.items() if not domain or domain in targets]
    if any(ir > max(counted, default=3) for ir in follows.values()):
        used = imports.used_domains(model)
        counted += [ir for domain, ir in follows.items() if domain in used]
    return max(counted, default=3)


def is_at_opsets(source: ModelProto, targets: Mapping[str, int]) -> bool:
    """Whether a model and its functions have these opsets already. Asked when nothing may have to be converted."""
    own, inner = imports.opsets(source), [imports.opsets(function) for function in source.functions]
    return all(own.get(d) == v and all(each.get(d, v) == v for each in inner) for d, v in targets.items())


def write_ir_version(
    model: ModelProto, targets: Mapping[str, int], asked: int | None, held: Iterable[Body], most: int | None = None
) -> list[Refusal]:
    """Write the IR version, and raise it to what the model's features need; refuse an asked one that is too low.

    Runs at the end of a conversion.

    `held` are the model's bodies. Without a feature that needs it, none above `most` is written. Imports that nothing
    uses, and that readers of that version do not know, are dropped.
    """
    follows = choose_ir_version(model, targets, asked)
    if asked is None and most is not None:
        follows = min(follows, most)
    reasons = {reason: ir for reason, ir in _needs(model, held) if ir > follows}
    if asked is not None and reasons:
        return [
            Refusal(
                "", "ir_version", "", 0, False, f"{reason} needs IR version {ir}, but --ir-version asks for {asked}"
            )
            for reason, ir in reasons.items()
        ]
    model.ir_version = max([follows, *reasons.values()])
    imports.drop_unused(model, lambda d, v: d not in targets and schemas.ir_version(d, v) > model.ir_version)
    if model.ir_version < _INITIALIZERS_NEED_NO_INPUT:
        initializers_to_inputs(model)
    return []


def _needs(model: ModelProto, held: Iterable[Body]) -> Iterator[tuple[str, int]]:
    """List features of the converted model that older readers would misread, each with the IR version that it needs."""
    if model.training_info:
        yield "training_info", 7
    for function in model.functions:
        yield "a model-local function", 8
        if function.attribute_proto:
            yield f"a default attribute of function {function.name}", 9
        if getattr(function, "overload", ""):
            yield f"an overload of function {function.name}", 10
    for body in held:
        if isinstance(body, FunctionProto):
            continue
        if body.sparse_initializer:
            yield "a sparse initializer", 6
        newer = any(map(_find_ir_version, {tensor.data_type for tensor in body.initializer}))
        for tensor in body.initializer if newer else ():
            if ir := _find_ir_version(tensor.data_type):
                yield f'the type of initializer "{tensor.name}"', ir
        for value in (*body.input, *body.output, *body.value_info):
            if ir := _type_needs(value.type):
                yield f'the type of "{value.name}"', ir


def _find_ir_version(elem_type: int) -> int:
    """Look up the IR version that introduced an element type; 0 if all have it."""
    return ELEMENTS[elem_type].ir_version if elem_type in ELEMENTS else 0


def _type_needs(value_type: TypeProto) -> int:
    """Find the IR version that introduced a type: 8 for optional and sparse tensors, else that of the element type.

    Asked for each declared type.
    """
    which = value_type.WhichOneof("value")
    if which in ("optional_type", "sparse_tensor_type"):
        return 8
    if which == "sequence_type":
        return _type_needs(value_type.sequence_type.elem_type)
    return _find_ir_version(elem_type_of(value_type))


def initializers_to_inputs(model: ModelProto) -> None:
    """Make every initializer a graph input, as IR versions below 4 require, and move those of subgraphs to the main
    graph. Runs at the end of a conversion below IR version 4.

    They get new names there: graphs that stand side by side may use one name for different values. Graphs of operators
    that may not read the main graph's values get nodes instead.
    """
    graph, fresh = model.graph, Names(model).fresh
    opset = next((entry.version for entry in model.opset_import if not normalize_domain(entry.domain)), 1)
    pending = [(g, bool(normalize_domain(node.domain))) for node in graph.node for _, _, g in subgraphs(node)]
    while pending:
        inner, apart = pending.pop()
        yielded = {value.name for value in inner.output}
        for tensor in inner.initializer:
            if apart and (as_nodes := in_nodes(tensor, opset, fresh)):
                for node in reversed(as_nodes):
                    inner.node.insert(0, node)
                continue
            moved = graph.initializer.add()
            moved.CopyFrom(tensor)
            moved.name = fresh(f"{tensor.name}/moved")
            if tensor.name in yielded:  # a graph yields only values of its own
                inner.node.insert(0, NodeProto(op_type="Identity", input=[moved.name], output=[tensor.name]))
            else:
                rename(inner.node, {tensor.name: moved.name})
        del inner.initializer[:]
        pending += [
            (g, apart or bool(normalize_domain(node.domain))) for node in inner.node for _, _, g in subgraphs(node)
        ]
    inputs = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.name not in inputs:
            _add_input(graph, tensor)


def _add_input(graph: GraphProto, tensor: TensorProto) -> None:
    """Declare an initializer as an input of the graph, too. Used below IR version 4."""
    value = graph.input.add(name=tensor.name)
    value.type.tensor_type.elem_type = tensor.data_type
    value.type.tensor_type.shape.SetInParent()
    for dim in tensor.dims:
        value.type.tensor_type.shape.dim.add().dim_value = dim

"""What a model declares of its values, as it follows from its inputs."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.passes.analysis import claims
from opshift.passes.analysis.claims import Path
from opshift.passes.analysis.inferring.type_inference import Inference
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.model.editing import dead_code
from opshift.passes.model.encoding.fields import retain
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import GraphProto, ModelProto, TypeProto, ValueInfoProto, copy_model
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import elem_type_of, has_shape, tensor_type
from opshift.passes.model.validity import fault, missing_of


def mend(model: ModelProto) -> None:
    """Let the model itself declare of outputs, and where it does so of values between, what is inferred.

    Where inference is silent, what was declared stays. Nothing is declared of what is not there any more.
    """
    inference = _inference(model)
    for path, graph in _graphs(model):
        made = {name for node in graph.node for name in node.output} | {value.name for value in graph.input}
        held = {tensor.name: tensor for tensor in graph.initializer}
        kept = [
            dead_code.is_stated(held[value.name], value) if value.name in held else value.name in made
            for value in graph.value_info
        ]
        retain(graph.value_info, kept)
        for value in (*graph.value_info, *graph.output):
            _declare(value, _type_to_declare(inference, path, value.name))


def annotate(model: ModelProto) -> int:
    """Let the model itself declare all that is inferred of values between; returns of how many it says more now."""
    inference, more = _inference(model), 0
    for path, graph in _graphs(model):
        stated = {value.name: value for value in (*graph.output, *graph.input, *graph.value_info)}
        for name in (name for node in graph.node for name in node.output if name):
            known = _type_to_declare(inference, path, name)
            if known is None:
                continue
            value = stated.get(name) or graph.value_info.add(name=name)
            before = value.type.SerializeToString()
            _declare(value, known)
            more += value.type.SerializeToString() != before
    return more


def types_of(model: ModelProto, names: Iterable[str]) -> dict[str, TypeProto]:
    """The types of values of the main graph as they follow from its inputs, else as they are declared.

    A value of unknown element type is left out.
    """
    graph, found = model.graph, dict[str, TypeProto]()
    stated = {value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input)}
    held = {tensor.name: tensor for tensor in graph.initializer}
    names = list(names)
    inference = _inference(model) if any(name not in held for name in names) else None
    for name in names:
        if name in held:
            found[name] = tensor_type(held[name].data_type, list(held[name].dims))
            continue
        value = ValueInfoProto(name=name)
        if name in stated:
            value.type.CopyFrom(stated[name])
        _declare(value, _type_to_declare(inference, (), name) if inference is not None else None)
        if _is_typed(value.type):
            found[name] = value.type
    return found


def with_output_types(source: ModelProto) -> ModelProto:
    """A copy of the model that declares the types of all outputs, and their shapes as far as they are known.

    Raises:
        InvalidModel: the type of an output does not follow from the nodes.
    """
    model = copy_model(source)
    for value in model.graph.output:
        if missing_of(value) or not _is_typed(value.type):
            value.ClearField("type")
    outputs = [v for v in model.graph.output if v.type.WhichOneof("value") in (None, "tensor_type")]
    outputs = [value for value in outputs if not has_shape(value.type)]
    found = types_of(model, [value.name for value in outputs])
    scope = Scope(model.graph, Context(model, model, trusting=False), opsets(model).get("", 1), path=())
    for value in outputs:
        if value.name in found:
            value.type.CopyFrom(found[value.name])
        elif elem_type := scope.elem_type(value.name):  # which schemas tell where inference tells nothing
            value.type.CopyFrom(tensor_type(elem_type))
        elif not value.HasField("type"):
            raise fault(f"{value.name!r}, an output of the model, has no type, and none follows from the nodes")
    return model


def _is_typed(value_type: TypeProto) -> bool:
    """Whether the type of elements is known."""
    which = value_type.WhichOneof("value")
    return which is not None and (which != "tensor_type" or bool(elem_type_of(value_type)))


def _inference(model: ModelProto) -> Inference:
    inference = Context(model, model, trusting=False).inference
    inference.now()
    return inference


def _graphs(model: ModelProto) -> list[tuple[Path, GraphProto]]:
    """The graphs of a model with their paths, but for those in functions, whose values have no types of their own."""
    found: list[tuple[Path, GraphProto]] = []
    pending: list[tuple[Path, GraphProto]] = [((), model.graph)]
    while pending:
        path, graph = pending.pop()
        found.append((path, graph))
        for index, node in enumerate(graph.node):
            if node.attribute:
                pending += [((*path, (index, attribute, k)), inner) for attribute, k, inner in subgraphs(node)]
    return found


def _type_to_declare(inference: Inference, path: Path, name: str) -> TypeProto | None:
    """Find the inferred type to declare; without symbols, if its sizes assume dynamic sizes of at least 1."""
    found = inference.type(path, name)
    if found is None or name not in inference.granted:
        return found
    made = TypeProto()
    made.CopyFrom(found)
    for dim in made.tensor_type.shape.dim:
        dim.ClearField("dim_param")
    return made


def _declare(value: ValueInfoProto, known: TypeProto | None) -> None:
    if known is None or (not elem_type_of(known) and known.WhichOneof("value") == "tensor_type"):
        return
    value_type = claims.reconcile(value.type, known) if has_shape(value.type) and has_shape(known) else known
    if has_shape(value.type) and not has_shape(value_type):
        return
    value.type.CopyFrom(value_type)
    _forget_made_up(value.type)


def _forget_made_up(value_type: TypeProto) -> None:
    """Leave sizes open that inference itself gave a name."""
    which = value_type.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        _forget_made_up(getattr(value_type, which).elem_type)
    elif which == "tensor_type":
        for dim in value_type.tensor_type.shape.dim:
            if not dim.HasField("dim_value") and claims.is_made_up(dim.dim_param):
                dim.Clear()

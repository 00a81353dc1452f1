"""Maps at the ends of a model as tensors: ZipMap's output becomes the scores, and maps that are read their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opshift.passes.changes import Change
from opshift.passes.model import imports, schemas
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, normalize_domain
from opshift.passes.model.types import Dim, tensor_type

T = TensorProto
ML = "ai.onnx.ml"
CASTS: dict[str, int] = {"TO_FLOAT": T.FLOAT, "TO_INT64": T.INT64, "TO_STRING": T.STRING}


def as_tensors(source: ModelProto, *, zipmap: bool, maps: bool) -> tuple[ModelProto, tuple[Change, ...]]:
    """A copy of the model in which maps are tensors, with what was done; the model itself where that is nothing.

    Maps between nodes stay as they are.
    """
    model = ModelProto()
    model.CopyFrom(source)
    done = [*(_zip(model) if zipmap else ()), *(_vectorize(model) if maps else ())]
    return (model, tuple(done)) if done else (source, ())


def _zip(model: ModelProto) -> Iterator[Change]:
    """ZipMap's output is what came in: a row of scores for each sample, a column for each label."""
    outputs = {value.name: value for value in model.graph.output}
    for node in [node for node in model.graph.node if _is(node, "ZipMap")]:
        value = outputs.get(node.output[0])
        if value is None:
            continue
        held = _attributes(node)
        labels = held.get("classlabels_strings") or held.get("classlabels_int64s") or []
        value.type.CopyFrom(tensor_type(T.FLOAT, [None, len(labels)]))
        listed = ", ".join(map(str, labels))
        _pass_on(model, node)
        yield _change(node, f'Replaced the maps of "{value.name}" by a matrix with columns {listed}')


def _vectorize(model: ModelProto) -> Iterator[Change]:
    """A map that one node alone makes a tensor of becomes that tensor."""
    for value in [value for value in model.graph.input if value.type.HasField("map_type")]:
        readers = [node for node in model.graph.node if value.name in node.input]
        if len(readers) != 1 or not (_is(readers[0], "DictVectorizer") or _is(readers[0], "CastMap")):
            continue
        node, held = readers[0], _attributes(readers[0])
        elem_type = value.type.map_type.value_type.tensor_type.elem_type
        if node.op_type == "DictVectorizer":
            keys = held.get("string_vocabulary") or held.get("int64_vocabulary") or []
            size: Dim = len(keys)
            told = f"its values in the order of {', '.join(map(str, keys))}"
            cast = elem_type
        else:
            sparse = held.get("map_form", "DENSE") == "SPARSE"
            size = int(held.get("max_map", 1)) if sparse else None
            told = f"its values at the places 0 to {size} - 1" if sparse else "its values in the order of their keys"
            cast = CASTS[held.get("cast_to", "TO_FLOAT")]
        value.type.CopyFrom(tensor_type(elem_type, [1, size]))
        if cast == elem_type:
            _pass_on(model, node)
        else:
            _import_default(model)
            node.domain, node.op_type = "", "Cast"
            del node.attribute[:]
            node.attribute.append(make_attribute("to", cast))
        yield _change(node, f'Replaced map "{value.name}" by a row, {told}')


def _is(node: NodeProto, op: str) -> bool:
    return node.op_type == op and normalize_domain(node.domain) == ML


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {attribute.name: attribute_value(attribute) for attribute in node.attribute}


def _change(node: NodeProto, how: str) -> Change:
    return Change(node.name or node.output[0], node.op_type, ML, 1, 1, how)


def _pass_on(model: ModelProto, node: NodeProto) -> None:
    """Take a node out of the graph, whose output is its input from now on; both have their name where both are seen."""
    graph, old, new = model.graph, node.output[0], node.input[0]
    seen = {value.name for value in graph.output}
    if old not in seen:
        for other in graph.node:
            other.input[:] = [new if name == old else name for name in other.input]
        graph.node.remove(node)
        return
    maker = next((other for other in graph.node if new in other.output), None)
    read = any(new in other.input for other in graph.node if other is not node)
    if maker is not None and new not in seen and not read:
        maker.output[:] = [old if name == new else name for name in maker.output]
        graph.node.remove(node)
        return
    _import_default(model)
    node.domain, node.op_type = "", "Identity"
    del node.attribute[:]


def _import_default(model: ModelProto) -> None:
    if not imports.opsets(model).get(""):
        model.opset_import.add(domain="", version=schemas.newest_opset(model.ir_version))

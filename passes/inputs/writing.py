"""Sizes and constants are written into a model, at every place that speaks of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opshift.passes.changes import Change
from opshift.passes.inputs.interface import tensor
from opshift.passes.inputs.sizes import size_of
from opshift.passes.inputs.wanted import ResolvedInputs, Wanted, resolve
from opshift.passes.model import tensors
from opshift.passes.model.editing.names import Names
from opshift.passes.model.encoding.fields import retain
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, copy_model
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import symbol

SIZED = "Fixed the sizes of an input"
_SET = "Made an input a constant"
_OVERRIDABLE_SINCE = 4  # the IR version from which on an initializer that is also an input is only a default


def write_into_copy(source: ModelProto, wanted: Wanted) -> ModelProto:
    """A copy that declares the sizes, and has the constants, but is the same otherwise; the source itself without any.

    Raises:
        ValueError: the model has no such input or dimension, or one of another rank, size or type.
    """
    if not wanted:
        return source
    model = copy_model(source)
    write(model, resolve(wanted, source))
    return model


def write(model: ModelProto, of: ResolvedInputs) -> list[Change]:
    """Write them into the model itself; returns what was done to its inputs.

    A symbolic dimension has one size in all graphs; functions have symbols of their own.
    """
    changes = []
    before = {value.name: value.type.SerializeToString() for value in model.graph.input}
    for value in model.graph.input:
        if value.name in of.shapes:
            _shape(value.type, of.shapes[value.name])
    for value in _values(model):
        _fix(value.type, of.sizes)
    for value in model.graph.input:
        if value.name not in of.values and value.type.SerializeToString() != before[value.name]:
            changes.append(Change(value.name, "input", "", 0, 0, SIZED))
    for name in of.values:
        changes.append(Change(name, "input", "", 0, 0, _SET))
    if of.values:
        _set(model, of)
    return changes


def _values(model: ModelProto) -> Iterator[ValueInfoProto]:
    """What the graphs of a model declare of values."""
    for body in bodies(model):
        if isinstance(body, GraphProto):
            yield from (*body.input, *body.value_info, *body.output)


def _shape(value_type: TypeProto, shape: tuple[int, ...]) -> None:
    held = tensor(value_type)
    del held.shape.dim[:]
    held.shape.SetInParent()
    for size in shape:
        held.shape.dim.add().dim_value = size


def _fix(value_type: TypeProto, sizes: Mapping[str, int]) -> None:
    """Put numbers in the place of symbols, however deep in a type they stand."""
    which = value_type.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        _fix(getattr(value_type, which).elem_type, sizes)
    elif which == "map_type":
        _fix(value_type.map_type.value_type, sizes)
    elif which in ("tensor_type", "sparse_tensor_type"):
        for dim in getattr(value_type, which).shape.dim:
            size = size_of(name, sizes) if (name := symbol(dim)) else None
            if size is not None:
                dim.dim_value = size


def _set(model: ModelProto, of: ResolvedInputs) -> None:
    """Make initializers of inputs, which are inputs no more but where each initializer has to be one."""
    graph = model.graph
    elem_types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    retain(graph.initializer, [held.name not in of.values for held in graph.initializer])
    retain(graph.sparse_initializer, [held.values.name not in of.values for held in graph.sparse_initializer])
    if model.ir_version >= _OVERRIDABLE_SINCE:
        retain(graph.input, [value.name not in of.values for value in graph.input])
    for name, value in of.values.items():
        graph.initializer.add().CopyFrom(tensors.tensor(value, elem_types[name]))
        graph.initializer[-1].name = name
    yielded = [value.name for value in graph.output if value.name in of.values]
    fresh = Names(model).fresh if yielded else None
    for name in dict.fromkeys(yielded):  # what a graph yields is made by a node
        assert fresh is not None, "there are names where there are values that need them"
        inner = fresh(f"{name}/constant")
        next(held for held in graph.initializer if held.name == name).name = inner
        graph.node.insert(0, NodeProto(op_type="Identity", input=[inner], output=[name]))
        if model.ir_version < _OVERRIDABLE_SINCE:
            next(value for value in graph.input if value.name == name).name = inner

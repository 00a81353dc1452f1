"""Cut regions out as small models with neutral names, so that like regions count as one kind."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

from opshift.passes.model.editing import renaming
from opshift.passes.model.messages import ModelProto, TensorProto, TypeProto, ValueInfoProto, copy_model
from opshift.passes.model.traversal import with_nested
from opshift.passes.model.types import tensor_type
from opshift.passes.records import dataclass
from opshift.verification.regions import Body, Region

_INLINE = 4
"""Elements of a float constant that is a part of the kind; larger ones are weights, which are fed."""
_INLINE_INTEGERS = 64
"""The same of integers: axes, shapes, pads."""


@dataclass(frozen=True)
class Part:
    """One model's side of a region, as a small model.

    Attributes:
        model: without types of its inputs, which are told when it is run.
        weights: the constants that are fed, by the name of the input that takes them.
    """

    model: ModelProto
    weights: Mapping[str, str]


@dataclass(frozen=True)
class Pair:
    """Both sides of a region.

    Attributes:
        before, after: what either model computes; inputs `~x0`, `~x1`, ..., outputs `~y0`, `~y1`, ...
        region: where it stands.
    """

    before: Part
    after: Part
    region: Region

    @cached_property
    def kind(self) -> bytes:
        """Compute a digest that regions share if only names, weights and types differ; each kind is proved once."""
        parts = (part.model.SerializeToString(deterministic=True) for part in (self.before, self.after))
        return hashlib.sha256(b"|".join(parts)).digest()

    @property
    def has_weights(self) -> bool:
        return bool(self.before.weights or self.after.weights)

    def with_types(self, which: int, types: Mapping[str, TypeProto]) -> ModelProto:
        """Give the inputs of a part types. Runs before a part is opened, with the types of the values to feed."""
        part = (self.before, self.after)[which]
        model = copy_model(part.model)
        for value in model.graph.input:
            value.type.CopyFrom(types[value.name])
        return model


def make_pair(before: Body, after: Body, region: Region) -> Pair:
    """Cut a region out of both models."""
    return Pair(_make_part(before, region, region.before, "a"), _make_part(after, region, region.after, "b"), region)


def _make_part(body: Body, region: Region, nodes: Sequence[int], mark: str) -> Part:
    """Cut one model's side of a region out as a small model, with neutral names; large weights become inputs.

    Runs for each side of each region.
    """
    computed = {name for index in nodes for name in body.pieces.nodes[index].output}
    names = {name: f"~x{k}" for k, name in enumerate(region.inputs) if name not in computed}
    names = {name: new for name, new in names.items() if name not in body.constants}
    names |= {name: f"~y{k}" for k, name in enumerate(region.outputs)}
    model = ModelProto(ir_version=body.side.model.ir_version, opset_import=body.side.model.opset_import)
    graph, weights = model.graph, dict[str, str]()
    graph.name = "region"
    reads = dict.fromkeys(name for index in nodes for name in body.pieces.reads(index))
    for name in [*reads, *(name for name in region.outputs if name not in computed)]:
        if name in computed or name in weights.values():
            continue
        if name in body.constants:
            tensor = body.constants[name]
            if name in region.outputs:
                names[name] = f"~c{len(names)}"
            if _is_inline(tensor):
                names.setdefault(name, f"~c{len(names)}")
                graph.initializer.add().CopyFrom(body.tensor(name))
                graph.initializer[-1].name = names[name]
            else:
                names[name] = f"~{mark}{len(weights)}"
                weights[names[name]] = name
                dims = [dim if tensor.data_type == TensorProto.INT64 else None for dim in tensor.dims]
                graph.input.add(name=names[name], type=tensor_type(tensor.data_type, dims))
        elif name in body.pieces.sparse:
            graph.sparse_initializer.add().CopyFrom(body.pieces.sparse[name])
            names[name] = name
    reached = {name for name in reads if name in names and names[name].startswith("~x")}
    for name in region.inputs:
        if name in reached or (name in region.outputs and name not in computed):
            graph.input.add(name=names[name])
    for index in nodes:
        graph.node.add().CopyFrom(body.pieces.nodes[index])
        graph.node[-1].name = graph.node[-1].doc_string = ""
        del graph.node[-1].metadata_props[:]
        for name in graph.node[-1].output:
            if name:
                names.setdefault(name, f"~t{len(names)}")
        renaming.rename(graph.node[-1:], names)
    for k, name in enumerate(region.outputs):
        if name not in computed:  # a constant, or an input, stands for it
            graph.node.add(op_type="Identity", input=[names[name]], output=[f"~y{k}"])
        graph.output.add(name=f"~y{k}")
    calls = {(node.domain, node.op_type) for inner in with_nested([graph]) for node in inner.node}
    if body.functions and calls.intersection((f.domain, f.name) for f in body.side.model.functions):
        model.functions.extend(body.side.model.functions)
    return Part(model, weights)


def _is_inline(tensor: TensorProto) -> bool:
    """Whether a constant is part of the computation, such as axes and epsilons, and not a weight.

    Asked for each constant that a region reads.
    """
    count = prod(tensor.dims)
    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
    if tensor.data_type in floats:
        return count <= _INLINE
    plain = (TensorProto.INT64, TensorProto.INT32, TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL)
    return tensor.data_type not in plain or count <= _INLINE_INTEGERS


def rename_values(model: ModelProto, names: Mapping[str, str]) -> ModelProto:
    """Copy a model with other names for its values."""
    renamed = copy_model(model)
    renaming.afresh(renamed.graph, lambda name: names.get(name, name))
    return renamed


def type_of(value: Any, *, is_fixed: bool = False) -> TypeProto:
    """The ONNX type of an engine's value, with open sizes unless they are fixed; raises `ValueError` if it has none."""
    from onnx import helper

    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError("the element type of an empty sequence cannot be told from its value")
        return TypeProto(sequence_type=TypeProto.Sequence(elem_type=type_of(value[0], is_fixed=is_fixed)))
    if value is None:
        raise ValueError("the type of an empty optional cannot be told from its value")
    elem_type = TensorProto.STRING if value.dtype.kind in "OSU" else helper.np_dtype_to_tensor_dtype(value.dtype)
    return tensor_type(elem_type, value.shape if is_fixed else [None] * value.ndim)


def with_outputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """Copy a model with inner values as more outputs. Used to see inner values of a part."""
    extended = copy_model(model)
    known = {value.name for value in extended.graph.output}
    extended.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in known)
    return extended

"""Describe a model file: inputs, outputs, weights by type, data files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from opshift.files import external
from opshift.jobs.outcome import text
from opshift.jobs.readers import rare_operators
from opshift.passes.model import tensor_data
from opshift.passes.model.messages import ModelProto, TypeProto, ValueInfoProto
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import ELEMENTS, dims_of, elem_type_of, has_shape, type_text

if TYPE_CHECKING:
    from opshift.passes.operators.shared.classical.described import Trees
    from opshift.passes.types.door import Convertible


@dataclass(frozen=True)
class WeightTotals:
    """The tensors of one element type: their number, elements and bytes."""

    tensors: int = 0
    elements: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Contents:
    """The contents of a model file.

    Attributes:
        producer: what wrote the model, with its version.
        inputs, outputs: their types with shapes, by name; inputs that an initializer stands for are left out.
        weights: by the name of their element type, the largest first.
        files: the size in bytes of each file with external data, by location; None for one that is not there.
        size: bytes of all files together, as far as they are there.
        trees: what each tree ensemble consists of, by the name of its node.
        types: how many nodes read or make each element type, the most frequent first.
        int64: what reads int64, and why it would stay; None where nothing does.
        float16: what reads float32, and why it would stay with `--types float16`, as far as the model tells.
        rare: the operators that many runtimes lack, and how many do.
        in_order: whether each node stands behind those whose values it reads, as ONNX asks for.
    """

    producer: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    weights: dict[str, WeightTotals]
    files: dict[str, int | None]
    size: int
    trees: dict[str, Trees]
    types: dict[str, int]
    int64: Convertible | None
    float16: Convertible | None
    rare: dict[str, int]
    in_order: bool = True


def contents(model: ModelProto, size: int, folder: str, *, in_order: bool = True) -> Contents:
    """Describe a model; `size` is that of its file, `folder` where external data lie, `in_order` whether its nodes
    were in order. `opshift inspect` prints it.
    """
    initialized = {tensor.name for tensor in model.graph.initializer}
    totals: dict[str, WeightTotals] = {}
    places: dict[str, int | None] = {}
    for tensor in external.tensors(model):
        type_name = ELEMENTS[tensor.data_type].name if tensor.data_type in ELEMENTS else f"type {tensor.data_type}"
        sum_ = totals.get(type_name, WeightTotals())
        width = 0 if type_name == "string" else tensor_data.nbytes(tensor)
        totals[type_name] = WeightTotals(sum_.tensors + 1, sum_.elements + prod(tensor.dims), sum_.bytes + width)
        if tensor_data.is_stored(tensor) and not tensor_data.is_embedded(tensor):
            location = tensor_data.place(tensor).location
            if location not in places:
                path = tensor_data.path(folder, location)
                places[location] = os.path.getsize(path) if os.path.exists(path) else None
    return Contents(
        " ".join(filter(None, [text(model.producer_name), text(model.producer_version)])),
        _types_by_name(value for value in model.graph.input if value.name not in initialized),
        _types_by_name(model.graph.output),
        dict(sorted(totals.items(), key=lambda item: -item[1].bytes)),
        places,
        size + sum(filter(None, places.values())),
        _describe_trees(model),
        *_count_types(model, folder),
        rare_operators(model),
        in_order,
    )


def _count_types(model: ModelProto, folder: str) -> tuple[dict[str, int], Convertible | None, Convertible | None]:
    """Tell which types nodes have, and which could be narrower; training graphs are left out.

    Part of what `opshift inspect` prints.
    """
    from opshift.passes.types.door import count_types, describe

    return count_types(model), describe(model, "int64=int32", folder), describe(model, "float16", folder)


def _describe_trees(model: ModelProto) -> dict[str, Trees]:
    """Describe the tree ensembles of a model: the number of trees, their depth. Part of what `opshift inspect`
    prints.
    """
    trees = {}
    for body in bodies(model):
        for node in body.node:
            if node.domain and node.op_type.startswith("TreeEnsemble"):
                from opshift.passes.operators.shared.classical.described import trees_of

                described = trees_of(node)
                if described is not None:
                    trees[text(node.name or next(filter(None, node.output), ""))] = described
    return trees


def _types_by_name(values: Iterable[ValueInfoProto]) -> dict[str, str]:
    return {text(value.name): _spell_type(value.type) for value in values}


def _spell_type(value_type: TypeProto) -> str:
    """Write a type as ONNX text does, such as `float[N,3]`; without brackets, the rank is unknown.

    `opshift inspect` prints it for inputs and outputs.
    """
    if value_type.WhichOneof("value") != "tensor_type":
        return type_text(value_type) or "unknown"
    element = ELEMENTS[elem_type_of(value_type)].name if elem_type_of(value_type) in ELEMENTS else "unknown"
    dims = ",".join("?" if dim is None else str(dim) for dim in dims_of(value_type))
    return f"{element}[{dims}]" if has_shape(value_type) else element

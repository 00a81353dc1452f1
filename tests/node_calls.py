"""The calls of a model with what is known of the values that they are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import onnx.numpy_helper
import onnx.shape_inference
from onnx import ModelProto, NodeProto, ValueInfoProto
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.traversal import bodies

from opshift.verification.engines import ENGINES, EngineError

DEFAULT = ("", "ai.onnx")


@dataclass(frozen=True)
class Call:
    """A node at its opset, with what is known of the values that it is given."""

    node: NodeProto
    opset: int
    values: Known

    def given(self, index: int) -> Any:
        """The value of an input; None where it is left out or unknown."""
        name = self.node.input[index] if index < len(self.node.input) else ""
        return self.values.get(name) if name else None

    def shape(self, index: int) -> tuple[int, ...] | None:
        """The sizes of an input; None where it is left out or unknown."""
        value = self.given(index)
        if isinstance(value, np.ndarray):
            return value.shape
        return self.values.shapes.get(self.node.input[index]) if index < len(self.node.input) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute that is not the caller's of a function."""
        return next(
            (attribute_value(a) for a in self.node.attribute if a.name == name and not a.ref_attr_name), default
        )


def calls(of: ModelProto, feeds: Mapping[str, Any] | None = None) -> Iterator[Call]:
    """The calls of all graphs and functions; without `feeds` only constants are known."""
    values = Known(of, feeds)
    functions = {id(function): function.opset_import for function in of.functions}
    imported = of.opset_import
    for body in bodies(of):
        imported = functions.get(id(body), of.opset_import if body is of.graph else imported)  # type: ignore[assignment]
        opset = next((i.version for i in imported if i.domain in DEFAULT), 1)
        for node in body.node:
            if node.domain in DEFAULT:
                yield Call(node, opset, values)


@dataclass(frozen=True)
class Known(Mapping[str, Any]):
    """The constants of a model, and the values of its main graph, computed when the first one is asked for that is neither fed nor constant."""

    of: ModelProto
    feeds: Mapping[str, Any] | None
    _held: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if self.feeds is not None and name in self.feeds:
            return self.feeds[name]
        return self._constants[name] if name in self._constants else self._computed[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._constants, **self._computed, **(self.feeds or {})})

    def __len__(self) -> int:
        return len(list(iter(self)))

    @cached_property
    def _constants(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for body in bodies(self.of):
            found |= {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in getattr(body, "initializer", ())}
            for node in body.node:
                if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                    found[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
        return found

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The sizes of values inside of graphs, too, as far as they follow from those of what is fed."""
        if self.feeds is None:
            return {}
        told = ModelProto()
        told.CopyFrom(self.of)
        for value in told.graph.input:
            if isinstance(fed := self.feeds.get(value.name), np.ndarray):
                del value.type.tensor_type.shape.dim[:]
                for size in fed.shape:
                    value.type.tensor_type.shape.dim.add(dim_value=size)
        try:
            inferred = onnx.shape_inference.infer_shapes(told, data_prop=True)
        except Exception:  # whatever is wrong with it, nothing is known
            return {}
        stated = (
            v for body in bodies(inferred) for v in (*body.input, *body.value_info) if isinstance(v, ValueInfoProto)
        )
        dims = {v.name: v.type.tensor_type.shape.dim for v in stated if v.type.tensor_type.HasField("shape")}
        return {
            name: tuple(dim.dim_value for dim in shape)
            for name, shape in dims.items()
            if all(dim.HasField("dim_value") for dim in shape)
        }

    @cached_property
    def _computed(self) -> dict[str, Any]:
        if self.feeds is None:
            return {}
        names = list(dict.fromkeys(name for node in self.of.graph.node for name in node.output if name))
        told = ModelProto()
        told.CopyFrom(self.of)
        del told.graph.output[:]
        told.graph.output.extend(ValueInfoProto(name=name) for name in names)
        for engine in ENGINES:
            try:
                return dict(zip(names, engine(told).run(self.feeds), strict=True))
            except EngineError:
                continue
        return {}

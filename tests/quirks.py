"""What engines compute otherwise than the text of an operator: one table, with evidence for each entry.

A judge asks `excuse(engine, model, feeds)` before it believes an engine: the text that comes back says why that engine is
no judge of that model; empty, it may judge. Without `feeds` only what hangs on the model alone is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import onnx.numpy_helper
from onnx import ModelProto, NodeProto, ValueInfoProto
from opshift.passes.names import bodies
from opshift.passes.view import attribute_value

from opshift.engines import ENGINES, EngineError
from tests.support import model

RUNTIME, REFERENCE = "onnxruntime", "onnx.reference"
DEFAULT = ("", "ai.onnx")


@dataclass(frozen=True)
class Call:
    """A node at its opset, with what is known of the values that it is given."""

    node: NodeProto
    opset: int
    values: Mapping[str, Any]

    def given(self, index: int) -> Any:
        """The value of an input; None where it is left out or unknown."""
        name = self.node.input[index] if index < len(self.node.input) else ""
        return self.values.get(name) if name else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute that is not the caller's of a function."""
        return next((attribute_value(a) for a in self.node.attribute if a.name == name and not a.ref_attr_name), default)

    def any_nan(self, *indices: int) -> bool:
        """Whether one of these inputs is known to hold NaN."""
        given = (self.given(index) for index in indices)
        return any(v is not None and v.dtype.kind == "f" and bool(np.isnan(v).any()) for v in given)


@dataclass(frozen=True)
class Evidence:
    """A model in ONNX text, its inputs, and its outputs by the text of the operator."""

    body: str
    opset: int
    inputs: str
    outputs: str
    feeds: Mapping[str, Any]
    right: tuple[Any, ...]
    constants: str = ""

    @property
    def model(self) -> ModelProto:
        return model(self.body, self.opset, inputs=self.inputs, outputs=self.outputs, constants=self.constants)


@dataclass(frozen=True)
class Quirk:
    """What an engine computes otherwise than the text says, and when."""

    engine: str
    seen: str  # the version in which it was seen last
    operators: tuple[str, ...]
    when: str
    gives: str
    text: str
    applies: Callable[[Call], bool]
    evidence: Evidence


def excuse(engine: str, of: ModelProto, feeds: Mapping[str, Any] | None = None) -> str:
    """Why an engine is no judge of a model on these inputs; empty where it may judge."""
    rows = [quirk for quirk in QUIRKS if engine.startswith(quirk.engine)]
    known = _Known(of, feeds)
    found = (
        f"{quirk.engine}: {call.node.op_type} where {quirk.when} {quirk.gives}"
        for call in _calls(of, known)
        for quirk in rows
        if call.node.op_type in quirk.operators and quirk.applies(call)
    )
    return next(found, "")


def _calls(of: ModelProto, values: Mapping[str, Any]) -> Iterator[Call]:
    functions = {id(function): function.opset_import for function in of.functions}
    imported = of.opset_import
    for body in bodies(of):
        imported = functions.get(id(body), of.opset_import if body is of.graph else imported)  # type: ignore[assignment]
        opset = next((i.version for i in imported if i.domain in DEFAULT), 1)
        for node in body.node:
            if node.domain in DEFAULT:
                yield Call(node, opset, values)


@dataclass(frozen=True)
class _Known(Mapping[str, Any]):
    """The values of a model's main graph, computed when the first one is asked for that is neither fed nor constant."""

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
        found = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in self.of.graph.initializer}
        for node in self.of.graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                found[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
        return found

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


def _below(opset: int) -> Callable[[Call], bool]:
    return lambda call: call.opset < opset


X4 = np.array([-2, 0.5, 3, np.nan], np.float32)
ONES = np.ones((2, 2, 2), np.float32)
CUBE = {"inputs": "float[2,2,2] x", "outputs": "float[2,2,2] y", "feeds": {"x": ONES}}

QUIRKS: tuple[Quirk, ...] = (
    Quirk(
        REFERENCE, "1.23.2", ("Softmax",), "the opset is below 13", "is computed along the last axis alone",
        "along all axes from the given one on, 1 by default", _below(13),
        Evidence("y = Softmax(x)", 11, **CUBE, right=(ONES / 4,)),
    ),
    Quirk(
        RUNTIME, "1.31.1", ("Unique",), "there is NaN", "is computed as if all numbers were equal",
        "as numpy.unique, for which NaN is the largest number", lambda call: call.any_nan(0),
        Evidence(
            "y = Unique(x)", 11, "float[4] x", "float[N] y", {"x": np.array([np.nan, 1, -1, 1], np.float32)},
            (np.array([-1, 1, np.nan], np.float32),),
        ),
    ),
)  # fmt: skip

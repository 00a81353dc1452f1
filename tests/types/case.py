"""What a case is: a small model, inputs, and the nodes that may stay float32 when it is converted to half precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx.numpy_helper
import onnx.parser
from onnx import GraphProto, ModelProto, NodeProto

from tests.types.walking import bodies

Array = np.ndarray
Feeds = Mapping[str, Any]

CASES: dict[str, Case] = {}


@dataclass(frozen=True)
class Case:
    """A model that converters to half precision get wrong.

    `wide` names nodes, by their first output in the source, or operators, that may stay float32. All others have a form
    in float16 and must be in it. `threads` are those of the users who reported it.
    """

    name: str
    text: str
    feeds: tuple[Feeds, ...]
    wide: frozenset[str]
    threads: tuple[str, ...]
    weights: Mapping[str, Array]
    opset: int
    change: Callable[[ModelProto], None] | None

    @cached_property
    def model(self) -> ModelProto:
        """The source; nobody may change it."""
        ir = 8 if self.opset < 20 else 10
        header = f'<ir_version: {ir}, opset_import: ["" : {self.opset}, "own" : 1]>'
        model = onnx.parser.parse_model(f"{header} {self.name} {self.text}")
        if not model.functions:
            del model.opset_import[1]
        for name, value in self.weights.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        name_nodes(model.graph.node)
        for function in model.functions:
            name_nodes(function.node)
        if self.change is not None:
            self.change(model)
        return model


def case(
    name: str,
    text: str,
    *feeds: Feeds,
    wide: Sequence[str] = (),
    seen: Sequence[str] = (),
    weights: Mapping[str, Array] | None = None,
    opset: int = 17,
    change: Callable[[ModelProto], None] | None = None,
) -> None:
    """Add a case; `seen` lists threads as OWNER/NAME#NUMBER, of issues and pull requests alike."""
    assert name not in CASES
    threads = tuple(f"https://github.com/{one.replace('#', '/issues/')}" for one in seen)
    CASES[name] = Case(name, text, feeds, frozenset(wide), threads, weights or {}, opset, change)


def name_nodes(nodes: Sequence[NodeProto]) -> None:
    """Name each node after its first output: converters keep names of nodes, not always those of values."""
    for node in nodes:
        node.name = next(name for name in node.output if name)
        for body in bodies(node):
            name_nodes(body.node)


def reverse(graph: GraphProto) -> None:
    """Put the nodes into the opposite order."""
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in reversed(graph.node)]
    del graph.node[:]
    graph.node.extend(nodes)


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    """Normally distributed float32 numbers."""
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def floats(*values: Any) -> Array:
    """A float32 tensor; a scalar where there is one value."""
    return np.array(values[0] if len(values) == 1 else values, np.float32)


def integers(*values: Any) -> Array:
    """An int64 tensor; a scalar where there is one value."""
    return np.array(values[0] if len(values) == 1 else values, np.int64)

"""Models, and what opshift makes of them: pairs that are to be the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto
from opshift.passes.errors import InvalidModel, Refused

import opshift
from tests.conformance.cases import installed
from tests.exported import store

Array = Any
DEFINED = (
    "LayerNormalization", "RMSNormalization", "GroupNormalization", "InstanceNormalization", "Gelu", "Attention", "Softmax", "LogSoftmax",
    "HardSwish", "Softplus", "ReduceL2", "ReduceL1", "ReduceLogSumExp", "Swish", "Mish", "Celu", "Elu", "Selu", "RotaryEmbedding", "Clip",
)  # fmt: skip
"""Operators to replace by their definitions."""

Way = Callable[[ModelProto], ModelProto]
WAYS: dict[str, Way] = {
    "to opset 13": lambda model: opshift.convert_version(model, 13),
    "to opset 11": lambda model: opshift.convert_version(model, 11),
    "to opset 23, optimized": lambda model: opshift.convert_version(model, 23, optimize=True),
    "modernized": lambda model: opshift.convert_version(model, 23, modernize=True, optimize=True),
    "optimized": lambda model: opshift.optimize(model),
    "folded": lambda model: opshift.fold(model),
    "inlined": lambda model: opshift.inline(model, _defined(model)) if _defined(model) else model,
    "portable": lambda model: opshift.inline(model, portable=True),
}
OF_NODES = ("to opset 13", "to opset 11", "to opset 23, optimized", "inlined")


@dataclass(frozen=True)
class Source:
    """A model with inputs that it takes."""

    name: str
    model: ModelProto
    inputs: dict[str, Array]


@dataclass(frozen=True)
class Form:
    """What one of the ways makes of a source."""

    source: Source
    way: str
    model: ModelProto

    @property
    def name(self) -> str:
        return f"{self.source.name} {self.way}"


def exported() -> list[Source]:
    """Of each family by each exporter one export."""
    found = [export for framework in store.frameworks() for export in store.sample(framework)]
    return [Source(export.name, export.model, export.feeds) for export in found]


def nodes() -> list[Source]:
    """The published node tests whose inputs are all arrays."""
    return [
        Source(case.name, case.model, case.inputs)
        for case in installed()
        if case.inputs
        and all(isinstance(value, np.ndarray) and value.dtype.kind in "fiub" for value in case.inputs.values())
    ]


def drawn(sources: list[Source], ways: tuple[str, ...], seed: int) -> Iterator[Form]:
    """The forms of sources in an order that the seed draws, without those that are refused or change nothing."""
    pairs = [(source, way) for source in sources for way in ways]
    random.Random(seed).shuffle(pairs)
    for source, way in pairs:
        if (made := convert(source, way)) is not None:
            yield made


def convert(source: Source, way: str) -> Form | None:
    """None where the conversion is refused or keeps all nodes as they are."""
    try:
        model = WAYS[way](source.model)
    except (InvalidModel, Refused):
        return None
    kept = [node.SerializeToString() for node in source.model.graph.node]
    if kept == [node.SerializeToString() for node in model.graph.node]:
        return None
    return Form(source, way, model)


def _defined(model: ModelProto) -> list[str]:
    found = {node.op_type for node in model.graph.node} & set(DEFINED)
    return sorted(found)

"""Branches that a source does not take: no engine has said whether what they hold is a call at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import onnx.numpy_helper
from onnx import GraphProto, ModelProto, TensorProto
from opshift.passes.model.traversal import bodies

from tests.random.models import Source
from tests.random.worker import flat
from tests.runtime import every_node

MOST = 3  # conditions that are turned in every combination


def turned(source: Source) -> Iterator[Source]:
    """The source with what its conditions are the other way round, of some and of all."""
    plain = flat(source.model)
    asked = {node.input[0] for node in every_node(plain.graph.node) if node.op_type == "If"}
    switches = sorted(asked & {*source.feeds, *(name for name, _ in _constants(plain))})[:MOST]
    for count in range(1, len(switches) + 1):
        for chosen in combinations(switches, count):
            model = ModelProto()
            model.CopyFrom(plain)
            for name, constant in _constants(model):
                if name in chosen:
                    constant.CopyFrom(
                        onnx.numpy_helper.from_array(~onnx.numpy_helper.to_array(constant), constant.name)
                    )
            feeds = {name: np.array(~value) if name in chosen else value for name, value in source.feeds.items()}
            yield replace(source, model=model, feeds=feeds)


def _constants(model: ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """The tensors that a model holds, by the names of their values."""
    for body in bodies(model):
        for tensor in body.initializer if isinstance(body, GraphProto) else ():
            yield tensor.name, tensor
        for node in body.node:
            if node.op_type == "Constant" and node.attribute[0].type == node.attribute[0].TENSOR:
                yield node.output[0], node.attribute[0].t

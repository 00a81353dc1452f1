"""The labels of classifiers of ai.onnx.ml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.validity import fault
from opshift.passes.rewrite.node import Node

T = TensorProto


@dataclass(frozen=True)
class Labels:
    """The labels of the classes in order, of one element type."""

    values: list[Any]
    elem_type: int


def class_labels(node: Node, ints: str, strings: str) -> Labels:
    """The labels in one of two attributes; raises `InvalidModel` where there are none, or both are given."""
    given = [name for name in (ints, strings) if node.attributes.get(name, [])]
    if len(given) != 1:
        raise fault(f"{' and '.join(given) or 'neither ' + ints + ' nor ' + strings} given", node.proto)
    return Labels(list(node.attributes[given[0]]), T.INT64 if given[0] == ints else T.STRING)


def label_of(node: Node, labels: Labels, places: str) -> str:
    """The labels of classes that are counted from 0; ArgMax's places themselves where they are the labels."""
    if labels.values == list(range(len(labels.values))):
        return places
    return str(node.build.Gather(node.build.constant(labels.values, labels.elem_type), places, axis=0))

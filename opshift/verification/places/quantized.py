"""Quantized values of two forms, and where between two integers the numbers lie that they are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, default_domain
from opshift.passes.model.tensors import array
from opshift.passes.records import dataclass
from opshift.verification import bounds
from opshift.verification.engines import EngineError
from opshift.verification.places.lines import constants
from opshift.verification.side import Side
from opshift.verification.twins.twin import Twin, is_too_large


@dataclass(frozen=True)
class Station:
    """A quantized value of either form; the integers of the second are `shift` larger, and of the type `kind`."""

    before: str
    after: str
    shift: int = 0
    kind: Any = None

    def of_second(self, value: Any) -> Any:
        """The integers that the second form has where the first one has these."""
        if self.kind is None:
            return value
        ends = np.iinfo(self.kind)
        return np.clip(value.astype(np.int32) + self.shift, ends.min, ends.max).astype(self.kind)

    def of_first(self, value: Any, dtype: Any) -> Any:
        """The same the other way round."""
        return value if self.kind is None else (value.astype(np.int32) - self.shift).astype(dtype)


def stations(before: ModelProto, after: ModelProto) -> list[Station]:
    """The quantized values of the main graphs that have one name, or that floats of one name are made of."""
    one, other = (_yielded(model) for model in (before, after))
    alike = sorted(one & other)
    found = {name: Station(name, name) for name in alike}
    first, second = (_dequantized(model, names) for model, names in ((before, one), (after, other)))
    for name in first.keys() & second.keys():
        (source, zero), (result, other_zero) = first[name], second[name]
        if source not in other and result not in one and source not in found:
            found[source] = Station(source, result, int(other_zero) - int(zero), other_zero.dtype)
    return [found[name] for name in sorted(found)]


def _yielded(model: ModelProto) -> set[str]:
    """What quantizing nodes yield."""
    return {
        node.output[0]
        for node in model.graph.node
        if node.op_type == "QuantizeLinear" or node.op_type.startswith("QLinear") or node.op_type == "QGemm"
        if node.output and node.output[0]
    }


def _dequantized(model: ModelProto, quantized: Collection[str]) -> dict[str, tuple[str, Any]]:
    """What is made of quantized values with one constant zero point: of which, and that."""
    held, found = constants(model.graph), {}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in quantized and any(node.input[2:]):
            zero = array(held[node.input[2]]) if node.input[2] in held else None
            if zero is not None and zero.size == 1:
                found[node.output[0]] = node.input[0], zero.reshape(())
    return found


@dataclass(frozen=True)
class Place:
    """Numbers in steps of a scale, in float64: `at` from the zero point on, `within` what the integers can hold.

    Rounding moves what QuantizeLinear rounds by up to `moved`; what multiplies by the whole part of 1 / scale in its
    place, by `coarsely`.
    """

    at: Any
    within: Any
    moved: Any
    coarsely: Any

    def lacking(self) -> Any:
        """How far from the middle between two integers each number is."""
        return np.abs(self.at - np.floor(self.at) - 0.5)

    def apart(self, other: Place) -> bool:
        """Whether any number is farther from that of another form than rounding moves both."""
        return bool((np.abs(self.within - other.within) > self.moved + other.moved).any())


_HIDDEN = 0.1
"""An element that is farther away than this part of a step hangs on integers on the way that rounding decides,
which says nothing of other elements."""
_TABLE = 0.01
"""By which part of a step numbers are inexact that are read from a table."""


def places(side: Side, made: Mapping[str, str], given: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Place]:
    """Those of what QuantizeLinear makes values of, by the name that both forms have; `made` says this form's own.

    `own` holds these values, and, as far as nodes make it, what is quantized, in the precision that it has.
    """
    nodes = {name: node for name, mine in made.items() for node in quantizing(side.model) if mine in node.output}
    model = ModelProto()
    model.CopyFrom(side.model)
    names = list(dict.fromkeys(name for node in nodes.values() for name in node.input if name))
    del model.graph.output[:]
    for name in names:
        model.graph.output.add(name=name)
    if not names or is_too_large(model):
        return {}
    try:
        wide = dict(zip(names, Twin(model, side.folder).run(given), strict=True))
    except EngineError:
        return {}
    with np.errstate(all="ignore"):
        found = {
            name: _place(node, [wide.get(read) for read in node.input], own, own[made[name]].dtype)
            for name, node in nodes.items()
        }
    return {name: place for name, place in found.items() if place is not None}


def quantizing(model: ModelProto) -> list[NodeProto]:
    """The nodes that show what they quantize."""
    return [node for node in model.graph.node if node.op_type == "QuantizeLinear" and not default_domain(node.domain)]


def _place(node: NodeProto, inputs: list[Any], own: Mapping[str, Any], dtype: Any) -> Place | None:
    held = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    data, scale, zero = np.asarray(inputs[0], np.float64), *(np.asarray(v, np.float64) for v in [*inputs[1:], 0][:2])
    if held.get("block_size"):
        return None
    if scale.size > 1:
        along = [-1 if axis == int(held.get("axis", 1)) % data.ndim else 1 for axis in range(data.ndim)]
        scale, zero = scale.reshape(along), zero.reshape(along) if zero.size > 1 else zero
    largest = float(np.abs(data[np.isfinite(data)]).max(initial=0.0))
    near = np.abs(own.get(node.input[0], data).astype(np.float64) - data) / np.abs(scale)
    near = np.maximum(near, near[near < _HIDDEN].max(initial=0.0))
    moved = bounds.TIMES["exact"] * near + 8 * bounds.SINGLE * largest / np.abs(scale)
    at, ends = data / scale, np.iinfo(dtype)
    within = np.clip(at + zero, ends.min, ends.max) - zero
    return Place(at, within, moved, np.abs(at) * (1 - np.floor(1 / scale) * scale) + _TABLE)

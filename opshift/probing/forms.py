"""With which values of attributes, and which optional inputs, a backend was seen to run an operator, or to fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from opshift.passes.backends.door import Value
from opshift.passes.model import schemas
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto, NodeProto, normalize_domain
from opshift.probing.retyped import Base, Oracle
from opshift.probing.samples import Sample, bind

_FLAG = (0, 1)
_CHOICES: dict[str, tuple[Value, ...]] = {
    "align_corners": _FLAG,
    "allowzero": _FLAG,
    "antialias": _FLAG,
    "approximate": ("none", "tanh"),
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "ceil_mode": _FLAG,
    "coordinate_transformation_mode": (
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    ),
    "count_include_pad": _FLAG,
    "direction": ("forward", "reverse", "bidirectional", "RIGHT", "LEFT"),
    "exclude_outside": _FLAG,
    "exclusive": _FLAG,
    "fmod": _FLAG,
    "is_causal": _FLAG,
    "keepdims": _FLAG,
    "largest": _FLAG,
    "layout": _FLAG,
    "linear_before_reset": _FLAG,
    "mode": ("DCR", "CRD", "constant", "edge", "reflect", "wrap", "nearest", "linear", "cubic", "bilinear", "bicubic"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "noop_with_empty_axes": _FLAG,
    "padding_mode": ("zeros", "border", "reflection"),
    "reduction": ("none", "add", "mul", "max", "min"),
    "reverse": _FLAG,
    "select_last_index": _FLAG,
    "sorted": _FLAG,
    "storage_order": _FLAG,
    "transA": _FLAG,
    "transB": _FLAG,
    "upper": _FLAG,
}  # fmt: skip
"""The values of attributes that say in which form an operator computes."""
_BASES = 3
"""Samples of an operator that others are made of."""

Agrees = Callable[[Sample], bool]


@dataclass(frozen=True)
class Forms:
    """Of which forms of an operator no call ran: values by attribute, and optional inputs by their formal names."""

    refused: dict[str, tuple[Value, ...]]
    unused: tuple[str, ...] = ()


def measure_forms(agreed: Iterable[Base], failing: Iterable[Sample], agrees: Agrees, oracle: Oracle) -> Forms:
    """What does not run where everything else is as in samples that do.

    `agreed` are samples that run once some of their inputs are constants, `failing` such as do not, whatever is.
    """
    bases, others = list(agreed), list(failing)
    refused: dict[str, tuple[Value, ...]] = {}
    for name, choices in _CHOICES.items():
        ran = {value for base in bases for value in [_value(base.sample, name)] if value is not None}
        failed = [value for value in choices if value not in ran and _fails(bases, name, value, agrees, oracle)]
        if failed:
            refused[name] = tuple(failed)
    used = {name for base in bases for name in _optional(base.sample)}
    suspects = [(sample, name) for sample in others for name in sorted(set(_optional(sample)) - used)]
    unused = {name for sample, name in suspects if _runs_without(sample, name, agrees, oracle)}
    return Forms(refused, tuple(sorted(unused)))


def _fails(bases: Iterable[Base], name: str, value: Value, agrees: Agrees, oracle: Oracle) -> bool:
    """Whether each sample that is made of another one with a value of an attribute fails, and there is one."""
    made = (changed for base in bases for changed in [_with(base, name, value, oracle)] if changed is not None)
    outcomes = [agrees(sample) for sample in islice(made, _BASES)]
    return bool(outcomes) and not any(outcomes)


def _with(base: Base, name: str, value: Value, oracle: Oracle) -> Sample | None:
    """A sample with another value of an attribute, as onnxruntime computes it; None where it does not take it."""
    import onnx.helper

    node, schema = _call_and_schema(base.sample)
    if node is None or schema is None or name not in schema.attributes:
        return None
    model = _copy_model(base.sample.model)
    changed = next(n for n in model.graph.node if n.output == node.output)
    kept = [each for each in changed.attribute if each.name != name]
    if name == "auto_pad" and value != "NOTSET":
        kept = [each for each in kept if each.name != "pads"]
    del changed.attribute[:]
    changed.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
    return _with_expected(bind(replace(base.sample, model=model), base.bound), oracle)


def _runs_without(sample: Sample, name: str, agrees: Agrees, oracle: Oracle) -> bool:
    """Whether a sample that fails runs without an optional input."""
    node, schema = _call_and_schema(sample)
    if node is None or schema is None:
        return False
    model = _copy_model(sample.model)
    changed = next(n for n in model.graph.node if n.output == node.output)
    for place, given in enumerate(node.input):
        formal = schema.input(place)
        if formal is not None and formal.name == name:
            changed.input[place] = ""
            kept = [value for value in model.graph.input if value.name != given]
            del model.graph.input[:]
            model.graph.input.extend(kept)
    while changed.input and not changed.input[-1]:
        changed.input.pop()
    names = {value.name for value in model.graph.input}
    feeds = {given: value for given, value in sample.feeds.items() if given in names}
    without = _with_expected(replace(sample, model=model, feeds=feeds), oracle)
    return without is not None and agrees(without)


def _with_expected(sample: Sample, oracle: Oracle) -> Sample | None:
    for value in sample.model.graph.output:
        value.type.tensor_type.ClearField("shape")
    found = oracle.ask(sample)
    if found is None or not found[1]:
        return None
    for value, array in zip(sample.model.graph.output, found[0], strict=False):
        if hasattr(array, "shape"):
            shape = value.type.tensor_type.shape
            shape.SetInParent()  # which says that there are no axes
            for size in array.shape:
                shape.dim.add().dim_value = size
    return replace(sample, expected=found[0], rtol=1e-3, atol=1e-6)


def _optional(sample: Sample) -> Iterator[str]:
    """The formal names of the optional inputs that a sample uses."""
    node, schema = _call_and_schema(sample)
    if node is None or schema is None:
        return
    for place, name in enumerate(node.input):
        formal = schema.input(place)
        if name and formal is not None and place >= schema.min_input:
            yield formal.name


def _value(sample: Sample, name: str) -> Any:
    """What an attribute is in a sample, or by default."""
    node, schema = _call_and_schema(sample)
    if node is None or schema is None or name not in schema.attributes:
        return None
    held = next((each for each in node.attribute if each.name == name), schema.attributes[name].default)
    return attribute_value(held) if held is not None else None


def _call_and_schema(sample: Sample) -> tuple[NodeProto | None, schemas.Schema | None]:
    node = next((n for n in sample.model.graph.node if (normalize_domain(n.domain), n.op_type) == sample.op), None)
    return node, schemas.schema(*sample.op, opsets(sample.model).get(sample.op[0], 1))


def _copy_model(source: ModelProto) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(source)
    return model

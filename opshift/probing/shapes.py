"""Samples of other ranks than the published ones, and with sizes that are not numbers, made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from opshift.passes.backends import door as backends
from opshift.passes.backends.door import Backend, MeasuredCall
from opshift.passes.model.messages import ModelProto
from opshift.probing import installed
from opshift.probing.samples import Sample
from opshift.probing.worker import Run, Worker, Yield

RANKS = range(7)
_BASES = 3  # samples of an operator that others are made of

Agrees = Callable[[Sample], bool]


def measure_shapes(samples: Iterable[Sample], agrees: Agrees, runtime: Worker) -> MeasuredCall:
    """With which ranks of its first input, and whether with open sizes, a backend agrees with onnxruntime.

    `samples` are those that it agrees with as they are; onnxruntime says which others there are, and what they yield.
    """
    held = [sample for sample in samples if _first(sample) is not None]
    ranks, bases = {_first(sample).ndim for sample in held}, held[:_BASES]
    failed = []
    for rank in RANKS:
        outcomes = (agrees(sample) for sample in _judge_rank(bases, rank, runtime)) if rank not in ranks else iter(())
        for outcome in outcomes:
            if outcome:
                ranks.add(rank)
                break
            failed.append(rank)
    symbolic = any(agrees(open_sizes(sample)) for sample in bases)
    return MeasuredCall(tuple(sorted(ranks)), symbolic, failed=tuple(sorted({*failed} - ranks)))


def _judge_rank(bases: Iterable[Sample], rank: int, runtime: Worker) -> Iterator[Sample]:
    """The samples of a rank that onnxruntime takes, with what it makes of them."""
    for base in bases:
        for sample in of_rank(base, rank):
            found = runtime.ask(Run(loadable(sample.model).SerializeToString(), [sample.feeds]))
            if isinstance(found, Yield) and found.outputs:
                expected = list(found.outputs[0])
                yield replace(sample, model=_declaring(sample.model, expected), expected=expected, rtol=1e-3, atol=1e-6)


def _declaring(model: ModelProto, outputs: Iterable[Any]) -> ModelProto:
    """The model with the shapes of its outputs: without them, importers refuse, or crash."""
    for value, array in zip(model.graph.output, outputs, strict=False):
        if hasattr(array, "shape"):
            shape = value.type.tensor_type.shape
            shape.SetInParent()  # which says that there are no axes
            for size in array.shape:
                shape.dim.add().dim_value = size
    return model


def loadable(source: ModelProto) -> ModelProto:
    """The model at an opset that onnxruntime loads; an operator that changed since then it refuses, or judges by it."""
    newest = _onnxruntime()
    model = ModelProto()
    model.CopyFrom(source)
    model.ir_version = min(model.ir_version, newest.ir_version)
    for entry in model.opset_import:
        if not entry.domain:
            entry.version = min(entry.version, newest.opset)
    return model


@cache
def _onnxruntime() -> Backend:
    """What the onnxruntime that is installed reads: the newest that is known, where it is none of those."""
    name = f"onnxruntime-{'.'.join(installed.release('onnxruntime').split('.')[:2])}"
    return backends.find(name if name in backends.targets() else "onnxruntime")


def of_rank(sample: Sample, rank: int) -> Iterator[Sample]:
    """The sample with its first input of another rank: all inputs of its rank, it alone, no lists of axes."""
    first = _first(sample)
    if first is None or not all(first.shape):
        return
    alike = {name for name, value in sample.feeds.items() if getattr(value, "ndim", -1) == first.ndim}
    alone = {next(iter(sample.feeds))}
    for names in [alike, alone] if alike != alone else [alone]:
        feeds = {name: _with_rank(value, rank) if name in names else value for name, value in sample.feeds.items()}
        model = _with_shapes(sample.model, {name: value.shape for name, value in feeds.items() if name in names})
        yield replace(sample, model=model, feeds=feeds)
        plain = _without_lists(model)
        if plain is not None:
            yield replace(sample, model=plain, feeds=feeds)


def open_sizes(sample: Sample) -> Sample:
    """The sample with sizes of its first input that are not numbers."""
    model = ModelProto()
    model.CopyFrom(sample.model)
    first = next(iter(sample.feeds))
    for value in model.graph.input:
        if value.name == first:
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                dim.dim_param = f"D{axis}"
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    return replace(sample, model=model)


def _first(sample: Sample) -> Any:
    """The first input, if it is an array."""
    value = next(iter(sample.feeds.values()), None)
    return value if hasattr(value, "ndim") else None


def _with_rank(value: Any, rank: int) -> Any:
    """A value with axes of two before its own, or without its first ones."""
    import numpy as np

    for _ in range(rank, value.ndim):
        value = value[0]
    for _ in range(value.ndim, rank):
        value = np.stack([value, value])
    return np.array(value, order="C")  # of an array without axes, one element is a number


def _with_shapes(source: ModelProto, shapes: dict[str, tuple[int, ...]]) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(source)
    for value in model.graph.input:
        if value.name in shapes:
            held = value.type.tensor_type.shape
            del held.dim[:]
            for size in shapes[value.name]:
                held.dim.add().dim_value = size
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


def _without_lists(source: ModelProto) -> ModelProto | None:
    """The model without attributes that say something for each axis; None where there are none."""
    model = ModelProto()
    model.CopyFrom(source)
    node = model.graph.node[0]
    kept = [attribute for attribute in node.attribute if not attribute.ints]
    if len(kept) == len(node.attribute):
        return None
    del node.attribute[:]
    node.attribute.extend(kept)
    return model

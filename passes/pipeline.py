"""Conversion as passes of `onnx_ir.passes` pipelines; weights are neither copied nor read on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir
from onnx_ir.passes import FunctionalPass, PassResult
from opshift.passes import constants, convert
from opshift.passes.errors import Refused
from opshift.passes.protos import ModelProto, default_domain

if TYPE_CHECKING:
    from opshift.api import Target

_AWAY = "opshift:weight"  # the location of tensors that stay where they are


@dataclass(frozen=True)
class ConvertVersionPass(FunctionalPass):  # type: ignore[misc]
    """Converts a model to another opset, up or down.

    Args:
        target: an opset, a target or opsets by domain, as for `opshift.convert_version`.
        ir_version: the IR version to write; without it, what the opset and the model's features ask for.

    Raises:
        Refused: the model cannot be expressed at the target; every reason is listed (as the cause of a PassError
            where a Sequential runs the pass).
    """

    target: Target
    ir_version: int | None = None

    def call(self, model: onnx_ir.Model) -> PassResult:
        """A converted model, and whether it differs from what was given."""
        from opshift.api import resolve

        targets, ir_version = resolve(self.target)
        return _converted(model, targets, (), self.ir_version or ir_version)


@dataclass(frozen=True)
class InlineFunctionsPass(FunctionalPass):  # type: ignore[misc]
    """Inlines a model's own functions; the IR version stays, unless a definition needs a newer one.

    Args:
        functions: the functions to inline, as `"domain::name"`; without it, all.

    Raises:
        Refused: a call does not fit its function (see `ConvertVersionPass`).
    """

    functions: Iterable[str] | None = None

    def call(self, model: onnx_ir.Model) -> PassResult:
        """A model without calls of these functions, and whether there were any functions."""
        known = {(default_domain(domain), name) for domain, name, _ in model.functions}
        if self.functions is not None:
            known &= {(default_domain(d), name) for d, _, name in (text.rpartition("::") for text in self.functions)}
        opsets = {default_domain(domain): version for domain, version in model.opset_imports.items()}
        return _converted(model, {"": opsets[""]} if "" in opsets else {}, sorted(known), model.ir_version)


def _converted(
    model: onnx_ir.Model, targets: Mapping[str, int], ops: Iterable[tuple[str, str]], ir_version: int | None
) -> PassResult:
    ops = list(ops)
    with _weights_away(model) as weights:
        source = onnx_ir.to_proto(model)
        try:
            made = convert.convert(source, targets, ops=ops, ir_version=ir_version).model
        except Refused:
            made = None
    if made is None:  # a step may have had to look at a weight
        weights = []
        source = onnx_ir.to_proto(model)
        made = convert.convert(source, targets, ops=ops, ir_version=ir_version).model
    assert made is not None, "what cannot be converted raises"
    modified = _bytes(made) != _bytes(source)
    result = onnx_ir.from_proto(made)
    _put_back(result, weights)
    return PassResult(result, modified)


def _bytes(of: ModelProto) -> bytes:
    return of.SerializeToString(deterministic=True)


@contextmanager
def _weights_away(model: onnx_ir.Model) -> Iterator[list[onnx_ir.TensorProtocol]]:
    """Large initializers are mere references while this lasts; yields them in the order of their offsets."""
    held: list[tuple[onnx_ir.Value, onnx_ir.TensorProtocol]] = []
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and tensor.size > constants.SMALL and tensor.dtype != onnx_ir.DataType.STRING:
                held.append((value, tensor))
    try:
        for index, (value, tensor) in enumerate(held):
            shape, name = onnx_ir.Shape(tensor.shape), value.name or ""
            value.const_value = onnx_ir.ExternalTensor(_AWAY, index, 1, tensor.dtype, shape=shape, name=name)
        yield [tensor for _, tensor in held]
    finally:
        for value, tensor in held:
            value.const_value = tensor


def _put_back(model: onnx_ir.Model, weights: list[onnx_ir.TensorProtocol]) -> None:
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, onnx_ir.ExternalTensor) and tensor.location == _AWAY and weights:
                value.const_value = weights[tensor.offset or 0]

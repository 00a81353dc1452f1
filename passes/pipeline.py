"""Conversion, inlining, folding and optimization as passes of `onnx_ir.passes` pipelines; weights are not copied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir
from onnx_ir.passes import FunctionalPass, PassResult
from opshift.passes import bridge
from opshift.passes.goals import Goal, Refinement, conversion, convert_version_goal, folding, with_options, with_types
from opshift.passes.inputs.sizes import BatchSize, Sizes
from opshift.passes.inputs.wanted import Values
from opshift.passes.model.editing.order import in_order_if_needed
from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.stages.operator_names import as_names, parse_operator, unknown
from opshift.passes.targets import Target


@dataclass(frozen=True)
class ConvertVersionPass(FunctionalPass):  # type: ignore[misc]
    """Converts a model to another opset, up or down.

    Args:
        target: an opset, a target or opsets by domain, as for `opshift.convert_version`.
        ir_version: the IR version to write; without it, what the opset and the model's features ask for. It can be
            asked for alone.
        modernize: then recognise operators, as `FoldFunctionsPass` does, but none that a named target lacks.
        optimize: then optimize, as `OptimizePass` does.

    Raises:
        Refused: the model cannot be expressed at the target; every reason is listed (as the cause of a PassError
            where a Sequential runs the pass).
    """

    target: Target | None = None
    ir_version: int | None = None
    modernize: bool = False
    optimize: bool = False

    def call(self, model: onnx_ir.Model) -> PassResult:
        """A converted model, and whether it differs from what was given."""
        refinement = Refinement(self.modernize, optimize=self.optimize)
        return _run_goal(model, convert_version_goal(self.target, self.ir_version, refinement))


@dataclass(frozen=True)
class InlineFunctionsPass(FunctionalPass):  # type: ignore[misc]
    """Inlines a model's own functions; the IR version stays, unless a definition needs a newer one.

    Args:
        functions: the functions to inline, as `"domain::name"`; without it, all.

    Raises:
        Refused: a call does not fit its function (see `ConvertVersionPass`).
        ValueError: the model has no such function.
    """

    functions: Iterable[str] | None = None

    def call(self, model: onnx_ir.Model) -> PassResult:
        """A model without calls of these functions, and whether there were any functions."""
        known = {(normalize_domain(domain), name) for domain, name, _ in model.functions}
        if self.functions is not None:
            for name in as_names(self.functions):
                if parse_operator(name) not in known:
                    raise unknown("function", name, known)
            known &= set(map(parse_operator, as_names(self.functions)))
        names = tuple(f"{domain}::{name}" for domain, name in sorted(known))
        return _run_goal(model, Goal(ir_version=model.ir_version, names=names))


@dataclass(frozen=True)
class FoldFunctionsPass(FunctionalPass):  # type: ignore[misc]
    """Puts operators in the place of the nodes that compute them, at the opset of the model.

    Args:
        ops: the operators to recognise, as `"Name"` or `"domain::Name"`; without it, those that exporters write.

    Raises:
        ValueError: an operator has no definition to recognise it by, or came after the model's opset (see
            `ConvertVersionPass`).
    """

    ops: Iterable[str] | None = None

    def call(self, model: onnx_ir.Model) -> PassResult:
        """A model with these operators, and whether any was recognised."""
        return _run_goal(model, conversion(None, wanted=folding(self.ops)))


@dataclass(frozen=True)
class OptimizePass(FunctionalPass):  # type: ignore[misc]
    """Computes no more what is constant, computed already, or of no effect (see `opshift.optimize`)."""

    def call(self, model: onnx_ir.Model) -> PassResult:
        """An optimized model, and whether it differs from what was given."""
        return _run_goal(model, conversion(None, wanted=Refinement(optimize=True)))


@dataclass(frozen=True)
class FixPass(FunctionalPass):  # type: ignore[misc]
    """Fixes sizes and inputs, and computes what follows.

    Args:
        fix_shape: sizes of inputs or of symbolic dimensions, as for `opshift.convert_version`.
        values: values of inputs, which become constants; as `set` there.
        rebatch: how many samples the model is to take at once, or `"dynamic"`.
        annotate: declare types and sizes of the values between.
        unroll: as for `opshift.convert_version`.
        if_to_where: as for `opshift.convert_version`.

    Raises:
        Refused: a node mixes samples (see `ConvertVersionPass`).
        ValueError: the model has no such input or dimension, or one of another rank, size or type.
    """

    fix_shape: Sizes | None = None
    values: Values | None = None
    rebatch: BatchSize | None = None
    annotate: bool = False
    unroll: int | None = None
    if_to_where: int | None = None

    def call(self, model: onnx_ir.Model) -> PassResult:
        """A model with these fixed, and whether it differs from what was given."""
        goal = with_options(
            Goal(),
            fix_shape=self.fix_shape,
            set=self.values,
            rebatch=self.rebatch,
            annotate=self.annotate,
            unroll=self.unroll,
            if_to_where=self.if_to_where,
        )
        return _run_goal(model, goal)


@dataclass(frozen=True)
class ChangeTypesPass(FunctionalPass):  # type: ignore[misc]
    """Gives values other element types, wherever operators take them and the values fit in.

    Args:
        types: the types, as for `opshift.convert_version`: `"float16"`, `"float32"`.
        interface: `"keep"` or `"narrow"`, or `"input:NAME=TYPE"`.
        keep: patterns of what keeps its type.
        only: patterns of what may change.

    Raises:
        Refused: the opset has no casts to the type (see `ConvertVersionPass`).
    """

    types: str
    interface: Iterable[str] | str | None = None
    keep: Iterable[str] | str | None = None
    only: Iterable[str] | str | None = None

    def call(self, model: onnx_ir.Model) -> PassResult:
        """A model with other types, and whether it differs from what was given."""
        return _run_goal(model, with_types(Goal(), self.types, self.interface, self.keep, self.only))


def _run_goal(model: onnx_ir.Model, goal: Goal) -> PassResult:
    with bridge.lend(model) as (source, back):
        made = in_order_if_needed(lambda model: goal.run(model, None), source)
        if made.model is None:
            raise goal.make_error(source, made, None)
        return PassResult(back(made.model), _bytes(made.model) != _bytes(source))


def _bytes(of: ModelProto) -> bytes:
    return of.SerializeToString(deterministic=True)

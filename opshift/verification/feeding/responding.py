"""Find outputs that no input changed: their runs prove little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.passes.inputs.interface import required_inputs
from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.model.traversal import may_hold, subgraphs, with_nested
from opshift.verification.trees import is_classical

_SIZES = frozenset(["Shape", "Size"])


def remarks(model: ModelProto, runs: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """Write remarks on outputs that were empty, or the same in all runs."""
    nothing = empty(model, runs)
    still = [name for name in find_unmoved_outputs(model, runs) if name not in nothing]
    return (
        *(f'output "{name}" was empty in each run, so its values were not tested' for name in nothing),
        *(f'output "{name}" was the same in each run, so little was tested' for name in still),
    )


def find_unmoved_outputs(model: ModelProto, runs: Sequence[Sequence[Any]]) -> list[str]:
    """List outputs that depend on input values, but were the same in all runs."""
    if len(runs) < 2:
        return []
    names = [value.name for value in model.graph.output]
    still = [name for k, name in enumerate(names) if not any(_moves(runs[0][k], run[k]) for run in runs[1:])]
    if is_classical(model):  # whose rows are computed each by itself
        still = [name for name in still if not any(_differs_by_row(run[names.index(name)]) for run in runs)]
    return [name for name in still if name in hanging(model)] if still else []


def empty(model: ModelProto, runs: Sequence[Sequence[Any]]) -> list[str]:
    """List outputs that were empty in all runs."""
    names = [value.name for value in model.graph.output]
    return [name for k, name in enumerate(names) if runs and all(_is_empty(run[k]) for run in runs)]


def _is_empty(value: Any) -> bool:
    return all(map(_is_empty, value)) if isinstance(value, list) else getattr(value, "size", 1) == 0


def _differs_by_row(value: Any) -> bool:
    rows = value.tolist() if getattr(value, "ndim", 0) else []
    return any(row != rows[0] for row in rows[1:])


def _moves(one: Any, other: Any) -> bool:
    """Whether two values differ in elements that both have. Asked for each output and pair of runs."""
    import numpy as np

    if isinstance(one, list) and isinstance(other, list):
        return any(map(_moves, one, other))
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return type(one) is not type(other) or bool(one != other)
    if one.ndim != other.ndim:
        return True
    common = tuple(slice(min(sizes)) for sizes in zip(one.shape, other.shape, strict=True))
    one, other = one[common], other[common]
    return not bool(((one == other) | ((one != one) & (other != other))).all())


def hanging(model: ModelProto) -> set[str]:
    """List values that are computed from the elements of inputs, not only from their sizes.

    Outputs that are not among them cannot move, so they give no remark.
    """
    dependent = set(required_inputs(model))
    for node in model.graph.node:
        if node.op_type in _SIZES and not normalize_domain(node.domain):
            continue
        inner = with_nested([graph for _, _, graph in subgraphs(node)] if may_hold(node) else [])
        if dependent.intersection(node.input) or any(
            dependent.intersection(at.input) for body in inner for at in body.node
        ):
            dependent.update(node.output)
    return dependent - {""}

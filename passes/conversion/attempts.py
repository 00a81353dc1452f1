"""The one place where a conversion is tried in more than one way.

An attempt that fails for a known reason is repaired: another one takes its place. Alternatives stand beside it, such as
another opset that a backend reads. Of those that succeed one is chosen: exact first, then of the fewest nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from opshift.passes.changes import Change, Result
from opshift.passes.conversion import ir_versions
from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.imports import check_imports, opsets
from opshift.passes.model.messages import ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass, replace

A = TypeVar("A")
R = TypeVar("R")

_FUNCTIONS_SINCE = 8  # the IR version that introduced model-local functions


@dataclass(frozen=True)
class Attempt:
    """One way to convert a model.

    Attributes:
        source: the model, or what is left of it without dead branches.
        targets: the opset to reach, by domain.
        ir_version: the IR version to write; None for the one that follows.
        folder: where external data lie.
        expand: operators to replace by their definitions, wherever they occur.
        inline: functions of the model to inline.
        copies: functions of which there is a copy for each kind of call, if any.
        merge: whether functions that differ in their names alone are inlined as one.
        dropped: the changes of Ifs in `source` that lost a dead branch.
        beside: whether it is an alternative to another attempt: another opset, or without what a backend lacks.
        is_extended: whether it replaces more operators than the first attempt, in case that helps.
        why: what differs from the first attempt, for reports.
        survey: the nodes of `source` by kind; a conversion uses it up.
    """

    source: ModelProto
    targets: Mapping[str, int]
    ir_version: int | None = None
    folder: str | None = None
    expand: frozenset[Op] = frozenset()
    inline: frozenset[Op] = frozenset()
    copies: Copies | None = None
    merge: bool = True
    dropped: tuple[Change, ...] = ()
    beside: bool = False
    is_extended: bool = False
    why: tuple[str, ...] = ()
    survey: Survey | None = None

    @property
    def model(self) -> ModelProto:
        """The model to convert."""
        return self.source if self.copies is None else self.copies.model


@dataclass(frozen=True)
class Copies:
    """A model with a copy of a function for each kind of call, and the user's names of these functions."""

    model: ModelProto
    changes: tuple[Change, ...]
    names: Mapping[Op, str]


@dataclass(frozen=True)
class Conversion:
    """The outcome of an attempt.

    Attributes:
        attempt: the attempt, with the copies of functions that it made.
        result: the converted model, or the refusals.
        blamed: functions of the model with a refused node; a repair may inline them.
        merged: whether the refusals are about functions that were merged.
        repairable: whether another attempt at the same targets may succeed.
    """

    attempt: Attempt
    result: Result
    blamed: frozenset[Op] = frozenset()
    merged: bool = False
    repairable: bool = True

    @property
    def is_refused(self) -> bool:
        return self.result.model is None


Repair = Callable[[Conversion], Attempt | None]
"""Makes an attempt to replace one that failed; None if it cannot help."""


def try_attempts(
    first: A,
    carry_out: Callable[[A], R],
    repairs: Sequence[Callable[[R], A | None]] = (),
    alternatives: Sequence[Callable[[Sequence[R]], Sequence[A]]] = (),
) -> list[R]:
    """Carry out one attempt after the other; returns the outcomes that no repair replaced, in order.

    The first repair that applies replaces an attempt that failed. When no attempt is left, the alternatives are asked
    for more.
    """
    waiting, tried = [first], list[R]()
    while waiting:
        done = carry_out(waiting.pop(0))
        repaired = next(filter(None, (repair(done) for repair in repairs)), None)
        if repaired is not None:
            waiting.insert(0, repaired)
            continue
        tried.append(done)
        if not waiting:
            waiting = list(next(filter(None, (find(tried) for find in alternatives)), ()))
    return tried


def choose(tried: Iterable[Conversion]) -> Conversion:
    """Choose the best conversion: exact before close, then the fewest nodes; of refused ones, the one with the fewest
    refusals.
    """
    tried = list(tried)
    done = [conversion for conversion in tried if not conversion.is_refused]
    if done:
        return min(done, key=lambda each: (each.result.grade == "close", sum((each.result.after or {}).values())))
    return min(tried, key=lambda conversion: len(conversion.result.refusals))


def plan_attempt(
    source: ModelProto,
    targets: Mapping[str, int],
    expand: Iterable[Op] = (),
    ir_version: int | None = None,
    folder: str | None = None,
    survey: Survey | None = None,
) -> Attempt:
    """Make the first attempt. It keeps the model's functions, unless they are to be replaced or the IR version is below
    8.

    Raises:
        InvalidModel: the opset imports are missing, contradict each other or are unknown.
        ValueError: the model imports no opset of a domain in `targets`.
    """
    if survey is None:
        check_imports(source)
    absent = sorted(set(targets) - set(opsets(source)) - {""})
    if absent:
        imported = ", ".join(repr(domain or "ai.onnx") for domain in opsets(source))
        raise ValueError(
            f"the model does not import domain {absent[0]!r}, so its opset cannot be changed; it imports {imported}"
        )
    wanted, local = frozenset(expand), local_functions(source)
    inline = local if ir_versions.choose_ir_version(source, targets, ir_version) < _FUNCTIONS_SINCE else wanted & local
    return Attempt(source, targets, ir_version, folder, wanted, inline, survey=survey)


def extend(attempt: Attempt, ops: Iterable[Op]) -> Attempt:
    """Make an attempt that also replaces these operators by their definitions. Used when a backend lacks them."""
    more = frozenset(ops)
    first = plan_attempt(attempt.source, attempt.targets, attempt.expand | more, attempt.ir_version, attempt.folder)
    names = ", ".join(sorted(f"{domain}::{op}" if domain else op for domain, op in more))
    return replace(first, beside=attempt.beside, is_extended=True, why=(*attempt.why, f"expanded {names}"))


def local_functions(model: ModelProto) -> frozenset[Op]:
    """List the model's functions, as (domain, name)."""
    return frozenset((normalize_domain(function.domain), function.name) for function in model.functions)


def convert_functions_apart(failed: Conversion) -> Attempt | None:
    """Repair: convert functions that were merged one by one, so that refusals have the names that the user wrote."""
    return replace(failed.attempt, merge=False, survey=None) if failed.merged else None


def inline_functions(failed: Conversion) -> Attempt | None:
    """Repair: inline functions that cannot be converted alone, as they need types or constants of their callers."""
    attempt, more = failed.attempt, failed.blamed - failed.attempt.inline
    if not more:
        return None
    why = (*attempt.why, f"inlined {', '.join(sorted(name for _, name in more))}")
    return replace(attempt, inline=attempt.inline | more, merge=True, why=why, survey=None)


def drop_dead_branches(failed: Conversion) -> Attempt | None:
    """Repair: drop branches of Ifs that a constant condition never takes, since a refusal there need not count."""
    attempt = failed.attempt
    if not failed.is_refused or not failed.repairable or attempt.dropped:
        return None
    from opshift.passes.conversion import dead_branches  # which few conversions need

    opset = opsets(attempt.source).get("", 1)
    pruned = dead_branches.copy_live_branches(attempt.source, opset, attempt.folder)
    if pruned is None:
        return None
    model, decided = pruned
    first = plan_attempt(model, attempt.targets, attempt.expand, attempt.ir_version, attempt.folder)
    changes = tuple(_note_dead_branch(node, opset) for node in decided)
    why = (*attempt.why, "removed branches that are never taken")
    return replace(first, dropped=changes, beside=attempt.beside, is_extended=attempt.is_extended, why=why)


def _note_dead_branch(node: NodeProto, opset: int) -> Change:
    """Write the change that reports show for an If that lost its dead branch."""
    how = "Removed the branch that a constant condition never takes"
    return Change(node.name or next(iter(node.output), ""), node.op_type, "", opset, opset, how)


REPAIRS: Sequence[Repair] = (convert_functions_apart, inline_functions, drop_dead_branches)

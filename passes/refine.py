"""What is done to a converted model on request: it is optimized, and what is written out becomes operators again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opshift.passes import progress
from opshift.passes.analysis.blaming import blaming
from opshift.passes.analysis.claims import CONTRADICTED
from opshift.passes.backends.backend import Backend
from opshift.passes.changes import Allowance, Result, Withheld
from opshift.passes.fusion.quantization.forms import INTEGERS, MOVED, QDQ, QOPERATOR, SCALED
from opshift.passes.model import schemas
from opshift.passes.model.imports import opsets
from opshift.passes.model.kinds import Survey
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass, replace


@dataclass(frozen=True)
class Refinement:
    """What is asked for beyond a conversion.

    Attributes:
        fold: put operators in the place of the nodes that compute them.
        ops: these alone; None for all that exporters write.
        optimize: compute no more what is constant, computed already, or of no effect.
        quantization: how quantized operators are to be written; empty where they stay as they are.
        backend: what has to read the result; nothing is done that it would not read.
        withheld, most: which changes are not made; see `opshift.passes.changes.Allowance`.
    """

    fold: bool = False
    ops: frozenset[Op] | None = None
    optimize: bool = False
    quantization: str = ""
    backend: Backend | None = None
    withheld: Withheld = frozenset()
    most: int | None = None

    @property
    def dequantizes(self) -> bool:
        """Whether no operator is to be left that computes in integers between scales."""
        return self.quantization == QDQ

    @property
    def demanded(self) -> Refinement:
        """What of it does not yield to the proof."""
        return Refinement(backend=self.backend, quantization=QDQ if self.dequantizes else "")


NOTHING = Refinement()
_EXPANDED: frozenset[Op] = frozenset([("", "GroupNormalization")])
"""What onnxruntime has no kernel for on the CPU: it expands them into more than they stand for, which takes longer."""


def refined(
    made: Result,
    wanted: Refinement,
    *,
    lacking: Iterable[Op] = (),
    folder: str | None = None,
    survey: Survey | None = None,
) -> Result:
    """The result of a conversion with what is asked for beyond it; a refused one is returned as it is.

    `survey` is that of its model, if any. Operators in `lacking` are not brought in; of an optimized model, nor
    those that would make it slower, if not named.

    Raises:
        InvalidModel: the model is not valid.
    """
    if made.model is None or not (wanted.fold or wanted.optimize or wanted.quantization == QOPERATOR):
        return made
    away = {*lacking, *_missing(made.model, wanted.backend)}
    if wanted.optimize and wanted.ops is None and wanted.backend is None:
        away |= _EXPANDED
    for asked in (wanted, wanted, replace(wanted, optimize=False)) if wanted.fold else (wanted,):
        result = _refined(made, asked, away, folder, survey)
        unread = _unread(result, made, wanted.backend, folder)
        if not unread:
            return result
        away |= unread
    return replace(made, folded=0 if wanted.fold else None)


def check_available(wanted: Refinement, opsets: Mapping[str, int]) -> None:
    """Operators that are named must exist where they are to be put, and be read by who reads the result."""
    for domain, op in sorted(wanted.ops or ()):
        opset, first = opsets.get(domain, 1), min(schemas.versions(domain, op), default=1)
        if opset < first:
            why = f"came with opset {first}, and the model is at {opset}; convert it first (--opset {first})"
            raise ValueError(f"{op} {why}")
        if wanted.backend is not None and not wanted.backend.has(domain, op, opset):
            raise ValueError(f"{wanted.backend.name} lacks {op}")


def without_integers(made: Result, folder: str | None) -> Result:
    """The same with scaled products of integers as products of what is dequantized."""
    if made.model is None:
        return made
    from opshift.passes.fusion import fold

    found = fold.attempt(made.model, ops=[SCALED], folder=folder)
    if not found.changes:
        return made
    return replace(made, model=found.model, changes=(*made.changes, *found.changes), after=found.after)


def _missing(model: ModelProto, backend: Backend | None) -> set[Op]:
    if backend is None:
        return set()
    return {op for domain, opset in opsets(model).items() for op in backend.missing(domain, opset)}


def _unread(result: Result, made: Result, backend: Backend | None, folder: str | None) -> set[Op]:
    """The operators that the backend does not read in the result, but did before."""
    if backend is None:
        return set()
    from opshift.passes.backends.obstacles import obstacles

    assert result.model is not None, "refining refuses nothing"
    assert made.model is not None, "what was refused is not refined"
    found = {(obstacle.domain, obstacle.op) for obstacle in obstacles(result.model, backend, folder)}
    if found:
        found -= {(obstacle.domain, obstacle.op) for obstacle in obstacles(made.model, backend, folder)}
    return found


def _refined(made: Result, wanted: Refinement, lacking: set[Op], folder: str | None, survey: Survey | None) -> Result:
    """Optimizing shares what two forms compute alike, and brings others to light: folding comes before and after."""
    allowance = Allowance(wanted.withheld, wanted.most)
    if not wanted.fold:
        result = _optimized(made, allowance, folder, survey) if wanted.optimize else made
    else:
        result = _folded(replace(made, folded=0), wanted, lacking, allowance, folder)
        if wanted.optimize:
            optimized = _optimized(result, allowance, folder)
            result = _folded(optimized, wanted, lacking, allowance, folder)
            if result.folded != optimized.folded:  # values that only the written out form kept apart
                result = _optimized(result, allowance, folder)
    if wanted.quantization == QOPERATOR:
        found = _folded(result, replace(wanted, ops=INTEGERS | {MOVED}), lacking, allowance, folder)
        result = found if found.folded or wanted.fold else replace(found, folded=None)  # nobody asked to fold
    return replace(result, optional=tuple(allowance.made))


def _folded(result: Result, wanted: Refinement, lacking: set[Op], allowance: Allowance, folder: str | None) -> Result:
    from opshift.passes.fusion import fold

    progress.tell("fold")
    source = _model(result)
    with blaming(source):
        found = fold.attempt(source, ops=wanted.ops, lacking=lacking, allowance=allowance, folder=folder)
    folded = sum(change.how != CONTRADICTED for change in found.changes)
    return replace(_after(result, found), folded=(result.folded or 0) + folded, stays=found.stays)


def _optimized(result: Result, allowance: Allowance, folder: str | None, survey: Survey | None = None) -> Result:
    from opshift.passes.optimization import optimize

    source = _model(result)
    with blaming(source):
        return _after(result, optimize.attempt(source, allowance=allowance, folder=folder, survey=survey))


def _after(first: Result, then: Result) -> Result:
    """Both as one; what is declared wrongly is said once."""
    said = {change.remark for change in first.changes if change.how == CONTRADICTED}
    more = (change for change in then.changes if change.how != CONTRADICTED or change.remark not in said)
    changes = (*first.changes, *more)
    return replace(first, model=then.model, changes=changes, before=first.before or then.before, after=then.after)


def _model(result: Result) -> ModelProto:
    assert result.model is not None, "refining refuses nothing"
    return result.model

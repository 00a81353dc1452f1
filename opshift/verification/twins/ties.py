"""What both forms decide by rounding: with all decisions before it alike, what each is made of has to be the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from opshift.passes.model.messages import NodeProto
from opshift.passes.records import replace
from opshift.verification import bounds, random_operators
from opshift.verification.engines import EngineError
from opshift.verification.judgement import Judgement
from opshift.verification.side import Side
from opshift.verification.twins import decisions
from opshift.verification.twins.decisions import Watch
from opshift.verification.twins.twin import Twin

Rows = Sequence[Mapping[str, Any]]
"""Values of either form by name."""


class Forms(Protocol):
    """The pair of forms that is judged."""

    before: Side
    after: Side
    grade: str
    twins: tuple[Twin, Twin] | None

    def feeds(self, given: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """What either form is given."""
        ...

    def array(self, name: str, a: Any, b: Any, x: Any, y: Any, unit: float) -> Judgement:
        """Both questions on two runs and their twins."""
        ...


def alike(pair: Forms, given: Mapping[str, Any], forced: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the decisions that rounding explains, up to the first, in the order of the graph, that it does not.

    Behind decisions that differ, the source itself is as far from its twin as a step of quantization: beside that, no
    number is far from a line. So each is asked again where those before it are forced, and hides nothing.
    """
    nodes = {
        name: node
        for node in pair.before.model.graph.node
        if decisions.decides(node) and len(node.output) > decisions.output(node)
        for name in [node.output[decisions.output(node)]]
        if name in forced
    }
    twins = pair.twins
    made = {name for node in pair.after.model.graph.node for name in node.output if name}
    outputs = {name for node in pair.before.model.graph.node for name in node.output}
    read = {name for node in nodes.values() for name in node.input if name in outputs and name not in forced}
    if not nodes or twins is None:
        return {}
    one, other = Watch(nodes.keys(), read), Watch(made & nodes.keys(), read & made)
    feeds = pair.feeds(given)
    try:
        twins[0].run(feeds[0], forced=forced, watch=one)
        twins[1].run(feeds[1], forced=forced, watch=other)
        narrow = (
            observed(pair.before, feeds[0], forced, sorted(read & made), "before"),
            observed(pair.after, feeds[1], forced, sorted(read & made), "after"),
        )
    except EngineError:
        return {}
    found: dict[str, Any] = {}
    for name, node in nodes.items():
        if not _is_explained(pair, node, (one, other), narrow):
            break
        found[name] = forced[name]
    return found


def _is_explained(pair: Forms, node: NodeProto, watched: tuple[Watch, Watch], narrow: Rows) -> bool:
    """Whether both forms make a decision of the same, and twins that decide otherwise are as near to the line."""
    one, other = watched
    allowed = 0.0
    for name in node.input:
        x, y = (watch.values.get(name) for watch in watched)
        if x is None or not bounds.is_float(x):
            continue
        kind = narrow[0][name].dtype if name in narrow[0] else np.dtype(np.float32)
        largest = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
        if y is None or name not in narrow[1]:  # one of them is made of something else
            allowed += bounds.cap(kind, pair.grade) * largest
            continue
        judged = pair.array(name, narrow[0][name], narrow[1][name], x, y, 0.0)
        if judged.why and not (judged.is_inaccurate and judged.accuracy <= bounds.cap(kind, "close") * largest):
            return False
        allowed += bounds.TIMES["exact"] * bounds.distance(x, y) + 8 * bounds.half_unit(kind) * largest
    name = decisions.decided(node)
    flips = decisions.differing(*(watch.values.get(name) for watch in (one, other, one, other)))
    if flips is None or not flips.any():
        return flips is not None
    for margins in (watch.margins.get(name, 0.0) for watch in watched):
        lacking = margins[flips] if np.ndim(margins) and np.shape(margins) == np.shape(flips) else margins
        if not bool((np.asarray(lacking) <= allowed).all()):
            return False
    return True


def beside(run: Any, wide: Any, known: Sequence[Any]) -> Any:
    """A run as it were where it decided as the twin: each element as far from it as from what is known and nearest."""
    if any(getattr(value, "shape", None) != getattr(run, "shape", ()) for value in (wide, *known)):
        return run
    if not bounds.is_float(run):
        return np.where(np.any([run == value for value in (wide, *known)], axis=0), known[0], run)
    with np.errstate(all="ignore"):
        found = run.astype(wide.dtype) - wide
        for value in known:
            gap = run.astype(wide.dtype) - value
            found = np.where(np.abs(gap) < np.abs(found), gap, found)
        return np.where(np.isfinite(found), wide + found, run).astype(run.dtype)


def cut(side: Side, forced: Mapping[str, Any], more: Sequence[str], mark: str) -> Side:
    """A form that takes decisions as inputs."""
    return replace(side, model=random_operators.cut(side.model, forced, more, mark))


def observed(
    side: Side, given: Mapping[str, Any], forced: Mapping[str, Any], names: Sequence[str], mark: str
) -> dict[str, Any]:
    """Values of a form in its own precision."""
    names = list(dict.fromkeys(names))
    known = {value.name for value in side.model.graph.output}
    more = [name for name in names if name not in known]
    session = cut(side, forced, more, mark).open() if forced else side.open(more)
    outputs = [value.name for value in side.model.graph.output if value.name not in forced]
    found = dict(zip([*outputs, *more], session.run({**given, **forced}), strict=True))
    return {name: found[name] for name in names if name in found}

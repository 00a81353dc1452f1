"""Cut pieces out of a main graph: the nodes that compute some values from others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from opshift.passes.model.messages import NodeProto
from opshift.passes.model.pieces import Pieces


class Counterparts(NamedTuple):
    """Nodes of both models that compute the same values from the same values."""

    before: tuple[NodeProto, ...]
    after: tuple[NodeProto, ...]


def find_counterparts(before: Pieces, after: Pieces, name: str) -> Counterparts | None:
    """Find the nodes around a node in both models, by its name or its first output's.

    None where no node is called so, or where nothing that it leads to is in both models.
    """
    shared = before.makers.keys() & after.makers.keys()
    for pieces in (before, after):
        index = _find_named(pieces, name)
        if index is not None:
            wanted = list(dict.fromkeys(_next_shared(pieces, index, shared)))
            if not wanted:
                return None
            ends = (shared | {*before.given, *before.held} & {*after.given, *after.held}) - {*wanted}
            one, other = (tuple(side.nodes[at] for at in side.between(wanted, ends)[0]) for side in (before, after))
            return Counterparts(one, other)
    return None


def _find_named(pieces: Pieces, name: str) -> int | None:
    """Find a node by its output's name, or its own. Used by the drawing of a change in HTML reports."""
    if name in pieces.makers:
        return pieces.makers[name]
    return next((index for index, node in enumerate(pieces.nodes) if node.name == name), None)


def _next_shared(pieces: Pieces, index: int, shared: set[str]) -> Iterator[str]:
    """Find the nearest values at or below a node that both models have.

    Used by the drawing of a change in HTML reports.
    """
    seen, pending = set[int](), [index]
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        for name in pieces.nodes[at].output:
            if name in shared:
                yield name
            elif name:
                pending += pieces.readers(name)

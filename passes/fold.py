"""Folding: what an operator's definition looks like when it is written out becomes the operator again."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.passes.convert import Result
from opshift.passes.expand import Op
from opshift.passes.protos import ModelProto


def attempt(
    source: ModelProto, *, ops: Iterable[Op] | None = None, lacking: Iterable[Op] = (), folder: str | None = None
) -> Result:
    """Fold a copy of `source` at the opsets that it imports: each group of nodes that computes one operator becomes it.

    `ops` are the operators to bring in (all that the opset has, if None), `lacking` those that must not come in.
    `folder` is where external data lie. Values that are used elsewhere or are graph outputs stay. Nothing is refused.
    """
    raise NotImplementedError

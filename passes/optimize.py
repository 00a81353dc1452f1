"""Optimization on request: what a graph computes from constants alone, twice, or to no effect is computed no more."""

from __future__ import annotations

from opshift.passes.convert import Result
from opshift.passes.protos import ModelProto


def attempt(source: ModelProto, *, folder: str | None = None) -> Result:
    """Optimize a copy of `source` at the opsets that it imports; nothing is refused.

    `folder` is where external data lie.
    """
    raise NotImplementedError

"""Sequences whose elements are known by name."""

from __future__ import annotations

from opshift.passes.analysis.scope import Scope
from opshift.passes.model.messages import default_domain

_LISTING = ("SequenceEmpty", "SequenceConstruct")


def constructed(scope: Scope, name: str) -> list[str] | None:
    """The tensors of a sequence whose maker lists them; None for any other."""
    made = scope.producer(name)
    listed = made is not None and not default_domain(made.domain) and made.op_type in _LISTING
    return list(made.input) if made is not None and listed else None

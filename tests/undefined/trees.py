"""When an ensemble of trees is one of which the text says nothing."""

from __future__ import annotations

from tests.node_calls import Call


def weighed_twice(call: Call) -> bool:
    """Whether a leaf has several weights of one target or class: they may be added up, or one may count."""
    return any(_repeats(call, of) for of in ("target", "class"))


def _repeats(call: Call, of: str) -> bool:
    weights = list(zip(*(call.attribute(f"{of}_{ids}", []) for ids in ("treeids", "nodeids", "ids")), strict=False))
    return len(set(weights)) < len(weights)

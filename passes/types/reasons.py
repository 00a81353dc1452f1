"""Why nodes keep their types, and what could change that."""

from __future__ import annotations

ASKED = "asked"
"""The user named the node."""
BUDGET = "budget"
"""Outputs move too far without it: a larger budget helps."""
MEASURED = "measured"
"""A run on inputs showed it: other inputs may show something else."""
RANGE = "range"
"""Numbers are too large or too small for the type: one with a larger range helps, as bfloat16 has it."""
SHAPES = "shapes"
"""Sizes are computed: fixed ones help."""


class Reason(str):
    """A sentence that says why a node keeps its type.

    Attributes:
        kinds: what kind of reason it is, such as `RANGE`; more than one may apply.
        opset: the opset from which on it does not hold; 0 for none.
        general: the same sentence without names of values.
    """

    def __new__(cls, text: str, *kinds: str, opset: int = 0, general: str = "") -> Reason:
        self = super().__new__(cls, text)
        self.kinds = frozenset(kinds)
        self.opset = opset
        self.general = general or text
        return self

    kinds: frozenset[str]
    opset: int
    general: str


NONE = Reason("")
CASTS = Reason("the casts around it would cost more than it saves")

"""Transpose, to which only types came."""

from __future__ import annotations

from opshift.passes.operators.shared.recipes import FLOAT8, carrier_casts
from opshift.passes.rewrite.registry import Pair, changed, same

changed("Transpose", 21, Pair(down=carrier_casts(FLOAT8)))
same(
    "Transpose",
    25,
    "int2 and uint2 added; the text states that perm holds each axis once",
)

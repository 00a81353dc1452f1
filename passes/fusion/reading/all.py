"""All rules by which nodes are read."""

from __future__ import annotations

from opshift.passes.fusion.reader import Rules
from opshift.passes.fusion.reading import arithmetic, attention, dims, layout, rotary

RULES = Rules({**arithmetic.RULES, **layout.RULES, **attention.RULES, **rotary.RULES}, dims.RULES, rotary.parts)

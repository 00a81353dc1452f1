"""LRN, to which only types came."""

from __future__ import annotations

from opshift.passes.rewrite.registry import same

same("LRN", 13, "only the text and bfloat16 changed")

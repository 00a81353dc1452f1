"""Exp, Log and Sqrt, which only lost a hint."""

from __future__ import annotations

from opshift.passes.operators.shared.recipes import without_hint
from opshift.passes.rewrite.registry import Pair, changed

changed(["Exp", "Log", "Sqrt"], 6, Pair(up=without_hint))

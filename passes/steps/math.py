"""Elementwise arithmetic."""

from opshift.passes.registry import same

same(["Add", "Sub", "Mul", "Div"], 14, "small integers came")
same("Abs", 13, "bfloat16 came")

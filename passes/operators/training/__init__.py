"""Operators of the family training."""

"""Operators of the family sequence."""

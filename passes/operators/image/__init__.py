"""Operators of the family image."""

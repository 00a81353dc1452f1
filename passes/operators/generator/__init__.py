"""Operators of the family generator."""

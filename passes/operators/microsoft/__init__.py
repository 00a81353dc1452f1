"""Operators of the family microsoft."""

"""Operators of the family logical."""

"""Operators of the family math."""

"""Operators of the family controlflow."""

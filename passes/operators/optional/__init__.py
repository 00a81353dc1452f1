"""Operators of the family optional."""

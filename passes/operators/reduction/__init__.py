"""Operators of the family reduction."""

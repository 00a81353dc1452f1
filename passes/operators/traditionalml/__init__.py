"""Operators of the family traditionalml."""

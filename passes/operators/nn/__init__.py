"""Operators of the family nn."""

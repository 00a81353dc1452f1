"""Operators of the family object_detection."""

"""Operators of the family quantization."""

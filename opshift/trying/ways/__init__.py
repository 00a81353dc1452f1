"""Remedies that rewrite all calls of an operator, or rename symbolic sizes, for a backend."""

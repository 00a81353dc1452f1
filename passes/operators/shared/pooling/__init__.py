"""Pooling: the windows of its operators, and where in them the largest elements are."""

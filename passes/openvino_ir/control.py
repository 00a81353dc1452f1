"""Layers that hold graphs."""

"""Simplify nodes exactly, as a conversion does with new nodes: rules, constant folding, repeated nodes."""

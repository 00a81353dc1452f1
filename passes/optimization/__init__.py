"""Fold constants, and remove nodes that are unused, repeated or without effect."""

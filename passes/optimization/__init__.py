"""Computes no more what is constant, computed already, or of no effect."""

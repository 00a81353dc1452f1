"""Measure what an installed backend supports, by trying it in a process of its own."""

"""Runs two models on the same inputs and compares their outputs."""

"""Prove that two models compute the same: identical nodes, regions that differ, and both whole models."""

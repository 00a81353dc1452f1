"""Backends: what they support, what in a model they do not, and how to convert for them."""

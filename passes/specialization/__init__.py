"""Sizes and inputs that are fixed in a model, and all that follows from them."""

"""Inputs of a model as users speak of them: their sizes and values, and how these are written into the model."""

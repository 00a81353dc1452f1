"""Inputs of a model as users speak of them: their sizes and values, and how to write these into the model."""

"""Inputs to run models on: the user's, or drawn ones that the model accepts."""

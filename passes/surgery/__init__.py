"""Cuts parts out of models, joins models, and changes which inputs and outputs a model has."""

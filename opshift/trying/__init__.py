"""Find out by trying what to replace until an installed backend runs a model."""

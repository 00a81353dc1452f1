"""Fix sizes, inputs and the batch in a model, and fold what becomes constant."""

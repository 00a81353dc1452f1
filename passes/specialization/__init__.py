"""Fix sizes, inputs and the batch in a model, fold what becomes constant, and unroll loops."""

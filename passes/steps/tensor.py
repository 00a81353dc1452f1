"""Moving, casting and shaping tensors."""

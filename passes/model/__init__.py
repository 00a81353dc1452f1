"""A model in memory: messages, attributes, tensors, schemas, names, and what is legal."""

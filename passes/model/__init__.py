"""A model in memory: messages, attributes, tensors, schemas, types, and what is legal."""

"""A model in memory: messages, attributes, tensors, schemas, types, and which models are valid."""

"""Replace an operator by its definition, specialized for the call."""

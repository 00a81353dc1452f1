"""Answer questions about values: their types, shapes and elements."""

"""What is known of values: their types, shapes and elements."""

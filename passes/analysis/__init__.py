"""What is known of values: their types, shapes and elements, and what constants compute to."""

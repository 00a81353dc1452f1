"""Messages as the bytes that a file holds: fields, and the names in front of a node."""

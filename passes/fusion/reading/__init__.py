"""Read nodes as terms of a normal form, one file a topic."""

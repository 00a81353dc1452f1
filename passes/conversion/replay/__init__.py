"""A step runs once for each kind of call, and what it did is replayed for the others."""

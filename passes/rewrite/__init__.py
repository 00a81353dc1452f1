"""What a rewriter touches: a node, the builder of new ones, and the registry of steps."""

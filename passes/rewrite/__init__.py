"""What a step touches: a node, the builder of new nodes, and the registry of steps."""

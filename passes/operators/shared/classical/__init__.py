"""Classical models: trees as tables and the nodes that walk through them, labels, and what is made of scores."""

"""How nodes are read as terms, one file a topic."""

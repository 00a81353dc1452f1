"""Recognise operators that are decomposed into many nodes, and fold the nodes into the operator."""

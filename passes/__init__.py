"""Everything that rewrites a graph."""

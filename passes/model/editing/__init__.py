"""Edits of a body as a whole: names, nodes that take the place of others, and what nothing reads any more."""

"""Finds operators that are written out, and puts them in the place of the nodes that compute them."""

"""Encode messages as bytes: fields, and the names of nodes."""

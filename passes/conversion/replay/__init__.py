"""Run a step once for each kind of call, and replay what it did for the others."""

"""Ways around what a backend lacks: each writes all calls of an operator otherwise, or all names of sizes."""

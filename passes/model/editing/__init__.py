"""Edit a whole body: rename values, replace nodes, remove unused ones."""

"""What must be replaced until an installed backend runs a model, found out by trying."""

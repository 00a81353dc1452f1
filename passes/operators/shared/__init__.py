"""What the histories of several operators have in common."""

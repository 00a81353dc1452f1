"""Constants and random numbers."""

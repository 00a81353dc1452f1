"""What a runtime reads: targets by name, what stands in a model's way, and what takes it out of it."""

"""Element types of values: those that change, the casts between, and wider types that carry what a runtime lacks."""

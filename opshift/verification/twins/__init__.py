"""The same model in float64, node after node: what it computes with rounding out of the way."""

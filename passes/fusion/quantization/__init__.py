"""Fold float operators between DequantizeLinear and QuantizeLinear into operators on integers."""

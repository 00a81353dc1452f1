"""Operators on quantized values: those on integers, and those on floats between DequantizeLinear and QuantizeLinear."""

"""Change element types, and store types that an opset lacks in wider ones, with explicit rounding."""

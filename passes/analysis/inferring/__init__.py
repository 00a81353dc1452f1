"""Infer types with onnx's shape inference, and correct it where it is wrong."""

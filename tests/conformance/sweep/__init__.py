"""Cases that ONNX does not publish, derived from those that it does."""

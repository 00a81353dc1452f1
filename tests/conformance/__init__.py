"""Runs published ONNX node tests through conversions to every opset and judges the results."""

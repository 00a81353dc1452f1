"""Move ONNX models between opset versions."""

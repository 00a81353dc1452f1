"""What changed between the versions of each operator, one file per family of `onnx/defs`."""

"""Convert OpenVINO IR networks to ONNX graphs: one function, or one line of a table, for each operator."""

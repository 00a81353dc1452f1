"""OpenVINO IR networks as ONNX graphs: one function, or one line of a table, for each operator."""

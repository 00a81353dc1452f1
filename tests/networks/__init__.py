"""Published cases and exported models that OpenVINO writes as its IR, judged as the ONNX models made of that."""

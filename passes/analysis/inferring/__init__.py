"""Types of values by the shape inference of onnx, of a model or a node, and what it has to be asked instead."""

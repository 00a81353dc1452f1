"""Convert from opset to opset: the worklist, the attempts, the IR version."""

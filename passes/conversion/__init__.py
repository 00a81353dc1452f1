"""From opset to opset: the worklist, the transitions, the IR version."""

"""An operator becomes its definition: the body is specialized for the call, and stamped out."""

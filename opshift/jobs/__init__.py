"""Convert one file or many: read, apply a goal, prove, write, and choose the exit code."""

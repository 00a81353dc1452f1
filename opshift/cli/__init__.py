"""The command line: parse arguments, run commands, print results."""

"""What a person types and reads: the parser, the commands, what is printed."""

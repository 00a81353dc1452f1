"""Tables that are generated: what is done about each change, the definitions, how low they reach."""

"""Generated tables: what opshift does about each change, the definitions, how low they reach, the types of operators."""

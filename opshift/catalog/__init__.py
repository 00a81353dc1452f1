"""Generated tables: what opshift does about each change, the definitions, how low they reach, types of operators."""

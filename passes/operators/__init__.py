"""The history of each operator: what changed between its versions, one folder a family."""

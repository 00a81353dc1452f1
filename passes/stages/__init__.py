"""What can be done to a model, one file a stage, all of one shape; a goal is a list of these."""

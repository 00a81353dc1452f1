"""Inputs to run models on: those that a user gives, or such as a model takes, found out by trying."""

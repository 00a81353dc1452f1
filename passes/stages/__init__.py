"""Stages: what opshift can do to a model, one file each, all of one shape. A goal is a list of them."""

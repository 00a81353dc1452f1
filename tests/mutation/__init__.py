"""Mutation testing: one place of the code is changed, and the tests that reach it must say so."""

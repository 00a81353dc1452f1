"""Operators of the family rnn."""

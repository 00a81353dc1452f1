"""Simplifies nodes exactly, as the conversion does with what it makes: rules, folding of constants, repeated nodes."""

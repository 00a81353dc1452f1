"""Compilers that run models under an interpreter of their own: one file each, which imports nothing of opshift."""

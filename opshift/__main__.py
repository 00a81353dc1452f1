"""`python -m opshift`."""

from opshift.cli.start import command

command()

"""`python -m opshift`."""

import sys

from opshift.cli import start

if vars(sys.modules["__main__"]) is globals():
    start.command()
sys.exit(start.main())  # for another program, which goes on

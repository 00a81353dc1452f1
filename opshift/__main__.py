"""`python -m opshift`."""

import sys

from opshift.cli.main import main

sys.exit(main())

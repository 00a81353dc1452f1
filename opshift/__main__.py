"""`python -m opshift`."""

import sys

from opshift.cli.start import main

sys.exit(main())

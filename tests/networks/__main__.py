"""`python -m tests.networks [published|exported]`: how many agree, differ and are refused, and why."""

import sys

from tests.networks.corpus import main

sys.exit(main())

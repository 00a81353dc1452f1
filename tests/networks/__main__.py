"""`python -m tests.lab networks [published|exported]`: how many agree, differ and are refused, and why."""

import sys

from tests.networks.corpus import main

if __name__ == "__main__":
    sys.exit(main())

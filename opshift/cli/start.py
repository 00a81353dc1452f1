"""Where the command line begins. Until it works on something, an interrupt ends it without a word."""

from __future__ import annotations

import gc
import signal


def main() -> int:
    """Run the command that was typed; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # what is imported stays
    from opshift.cli.main import main as run

    return run()

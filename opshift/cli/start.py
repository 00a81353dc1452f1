"""Where the command line begins. Until it works on something, an interrupt ends it without a word."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import NoReturn


def command() -> NoReturn:
    """Run the command that was typed, and end the process with its exit code."""
    code = main()
    if threading.active_count() > 1:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)  # to take apart all that was imported, and the model, takes a tenth of a short command


def main() -> int:
    """Run the command that was typed; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # what is imported stays
    from opshift.cli.main import main as run

    return run()

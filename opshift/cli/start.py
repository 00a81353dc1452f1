"""Where the command line begins. Until it works on something, an interrupt ends it without a word.

What is imported up here is there already or built in: before `main` has begun, an interrupt is Python's.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import NoReturn


def command() -> NoReturn:
    """Run the command that was typed, and end the process with its exit code."""
    code = main()
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):  # who reads has left
            continue
    os._exit(code)  # to take apart all that was imported, and the model, takes a tenth of a short command


def main() -> int:
    """Run the command that was typed; returns the exit code."""
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    gc.disable()  # what is imported stays
    from opshift.cli.main import main as run

    return run()

"""Start the command line. Until a command works on something, Ctrl-C ends it without a message.

Only modules that are built in or already imported are imported here: until `main` runs, Ctrl-C prints a traceback.
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

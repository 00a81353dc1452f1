"""Serves one backend over pipes, under the interpreter that has it: `python -I serve.py ADAPTER.py FOLDER LIFE`.

Questions come as lines of JSON on the standard input, answers go as lines of JSON to the standard output. Models and
arrays lie in files of FOLDER. All that the backend prints goes to the standard error. LIFE is a pipe that ends with
the process that asks.

| question | answer |
|---|---|
| at the start | `{"release": "3.6.1", "reasons": [...], "options": [...]}`, or `{"missing": why}` |
| `{"load": path, "inputs": {name: [type, sizes]}, "outputs": {...}, "options": [...]}` | `{}`, or `{"why": ...}` |
| `{"run": feeds.npz, "to": outputs.npz}` | the same; arrays go by place, as `0`, `1`, ... |

An adapter has a class `Session`: `Session(path, folder, inputs, outputs, options)` compiles a model, `.run(feeds)`
takes arrays by name and returns the outputs in their order. `PACKAGE` names the distribution that tells the release.
`REASONS` are patterns of the lines that say why the compiler refused, the best first; `OPTIONS` what it may be given.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

REASONS = [
    r"error: .*",
    r"(?i)\b(?:not supported?|unsupport\w*|not implemented)\b",
    r"(?i)\b(?:error|fail\w*|assert\w*)\b",
]
"""Patterns of the lines that say why, for any backend."""
_NOISE = re.compile(
    r"(?i)\bpip\b|matching distribution|find a version that|retrying|^\s*$|^Traceback|^\s+(File|raise) "
)
_STAMP = re.compile(r"^(?:\x1b\[[\d;]*m)*(?:[\w./-]*\[[\d:. -]+\]\s*)?(?:\S*:\d+:\s*)?")
_NEW_NETWORK = 0x40000000  # Linux's CLONE_NEWNET


def reason(log: str, patterns: list[str], otherwise: str = "") -> str:
    """The line of a log that says why a compiler refused; what pip says is never it."""
    lines = [line for line in log.splitlines() if not _NOISE.search(line)]
    for pattern in (*patterns, *REASONS):
        for line in lines:
            if re.search(pattern, line):
                return " ".join(_STAMP.sub("", line).split())
    return otherwise or " ".join(lines[-1:])


def end_with_parent(life: int, folder: str) -> None:
    """Leave a small process that ends this one's group, and removes the folder, when the pipe `life` ends."""
    if not hasattr(os, "fork"):
        return
    group = os.getpid()
    if os.fork():
        os.close(life)
        return
    os.setpgid(0, 0)
    for stream in (0, 1, 2):
        os.close(stream)
    with suppress(OSError):
        while os.read(life, 1):
            pass
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def leave_network() -> None:
    """Have no network where the system lets us: tools of compilers send logs, and install packages for that."""
    with suppress(Exception):
        import ctypes

        ctypes.CDLL(None).unshare(_NEW_NETWORK)


def limit_memory() -> None:
    """Let what asks for more memory than is free hear so, and write no core file."""
    with suppress(ImportError, OSError, ValueError, StopIteration):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        room = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (room if most < 0 else min(room, most), most))


def open_adapter(path: str) -> Any:
    """The module of an adapter."""
    spec = importlib.util.spec_from_file_location("adapter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def release_of(adapter: Any) -> str:
    """The release of the backend."""
    package = getattr(adapter, "PACKAGE", "")
    if not package:
        return str(getattr(adapter, "RELEASE", ""))
    return importlib.metadata.version(package)


class Server:
    """Answers questions about one model after the other."""

    def __init__(self, adapter: Any, folder: str):
        self._adapter, self._folder = adapter, folder
        self._session: Any = None
        self._inputs: list[str] = []

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer a question: load a model, or run it. If that fails, the answer holds the reason as `why`."""
        begin = os.lseek(2, 0, os.SEEK_END)
        try:
            if "load" in asked:
                self._load(asked)
            else:
                self._run(asked)
        except MemoryError:
            return {"why": "the memory does not suffice"}
        except (Exception, SystemExit) as error:
            return {"why": self._why(error, begin)}
        return {}

    def _why(self, error: BaseException, begin: int) -> str:
        sys.stderr.flush()
        sys.stdout.flush()
        said = f"{type(error).__name__}: {error}" if isinstance(error, (KeyError, AssertionError)) else str(error)
        with open(os.path.join(self._folder, "log"), "rb") as log:
            log.seek(begin)
            lines = f"{said}\n{log.read().decode(errors='replace')}"
        last = next((line for line in reversed(said.splitlines()) if line.strip()), type(error).__name__)
        return reason(lines, getattr(self._adapter, "REASONS", []), " ".join(last.split()))

    def _load(self, asked: dict[str, Any]) -> None:
        self._session = None
        self._inputs = list(asked["inputs"])
        options = asked.get("options", [])
        self._session = self._adapter.Session(asked["load"], self._folder, asked["inputs"], asked["outputs"], options)

    def _run(self, asked: dict[str, Any]) -> None:
        import numpy as np

        with np.load(asked["run"]) as held:
            feeds = {name: held[str(place)] for place, name in enumerate(self._inputs)}
        found = self._session.run(feeds)
        arrays: dict[str, Any] = {str(place): np.asarray(value) for place, value in enumerate(found)}
        np.savez(asked["to"], **arrays)


def main(path: str, folder: str, life: int) -> None:
    """Serve until there are no more questions."""
    end_with_parent(life, folder)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    leave_network()
    limit_memory()

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        adapter = open_adapter(path)
        release = release_of(adapter)
    except (Exception, SystemExit) as error:
        say({"missing": " ".join(str(error).split()) or type(error).__name__})
        return
    say({"release": release, "reasons": getattr(adapter, "REASONS", []), "options": getattr(adapter, "OPTIONS", [])})
    server = Server(adapter, folder)
    for line in sys.stdin:
        say(server.answer(json.loads(line)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

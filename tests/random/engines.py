"""Asks engines in a process of their own: some end the process that they run in, or run for ever."""

from __future__ import annotations

import contextlib
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from onnx import ModelProto

from tests.random.worker import SECONDS, receive, send

ROOT = Path(__file__).parents[2]
LATE = "no answer in"
PATIENCE = 60.0  # seconds of the wall clock, for an engine that waits instead of computing


class Engines:
    """One worker, started when first asked and again after it died."""

    def __init__(self) -> None:
        self._worker: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def run(
        self, engine: str, model: ModelProto, feeds: dict[str, Any], seconds: float = SECONDS
    ) -> tuple[list[Any] | None, str]:
        """The outputs of a model, or why an engine has none."""
        if self._worker is None:
            command = [sys.executable, "-W", "ignore", "-m", "tests.random.worker"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._worker = subprocess.Popen(command, cwd=ROOT, **pipes)  # type: ignore[call-overload]
        stdin, stdout = self._worker.stdin, self._worker.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            send(stdin, (seconds, engine, model.SerializeToString(), feeds))
            ready, _, _ = select.select([stdout], [], [], PATIENCE)
            answered = receive(stdout) if ready else None
        except BrokenPipeError:
            answered, ready = None, [stdout]
        if answered is None:
            late = not ready or self._worker.wait() == -signal.SIGPROF
            self._end()
            return None, f"{LATE} {seconds:.0f} seconds" if late else "it died"
        found: tuple[list[Any] | None, str] = answered
        return found

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()
            for pipe in (self._worker.stdin, self._worker.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._worker = None

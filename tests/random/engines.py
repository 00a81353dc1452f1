"""Asks engines in a process of their own: some end the process that they run in, or run for ever."""

from __future__ import annotations

import contextlib
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from onnx import ModelProto

from tests import quirks
from tests.conformance.engines import NO_JUDGE
from tests.random.worker import ENGINES, SECONDS, VALUES, flat, receive, send

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

    def values(self, model: ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """What `all_values` says; nothing where it takes too long, or ends the worker."""
        found, _ = self._ask(VALUES, model, dict(feeds), SECONDS)
        return found or {}

    def run(
        self, engine: str, model: ModelProto, feeds: dict[str, Any], seconds: float = SECONDS
    ) -> tuple[list[Any] | None, str]:
        """The outputs of a model, or why an engine has none, or is no judge of it."""
        judge = ENGINES[engine]
        try:
            model = flat(model)
            why = quirks.excuse(judge.engine, model, feeds, own=judge.own, compute=self.values)
        except Exception as error:
            return None, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return (None, f"{NO_JUDGE}: {why}") if why else self._ask(engine, model, feeds, seconds)

    def _ask(self, whom: str, model: ModelProto, feeds: dict[str, Any], seconds: float) -> tuple[Any, str]:
        if self._worker is None:
            command = [sys.executable, "-W", "ignore", "-m", "tests.random.worker"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._worker = subprocess.Popen(command, cwd=ROOT, **pipes)  # type: ignore[call-overload]
        stdin, stdout = self._worker.stdin, self._worker.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            send(stdin, (seconds, whom, model.SerializeToString(), feeds))
            ready, _, _ = select.select([stdout], [], [], PATIENCE)
            answered = receive(stdout) if ready else None
        except BrokenPipeError:
            answered, ready = None, [stdout]
        if answered is None:
            late = not ready or self._worker.wait() == -signal.SIGPROF
            self._end()
            return None, f"{LATE} {seconds:.0f} seconds" if late else "it died"
        found: tuple[Any, str] = answered
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

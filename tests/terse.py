"""Fewer messages of a worker to who hands out tests: a dot needs one report of three, and no word that a test begins."""

from __future__ import annotations

from typing import Any

import pytest


def speak(session: pytest.Session) -> None:
    """Let the worker that this process is, if it is one, tell what a quiet run prints, and no more."""
    options, plugins = session.config.option, session.config.pluginmanager
    if options.verbose >= 0 or options.durations is not None or options.xmlpath is not None:
        return
    for plugin in plugins.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugins.unregister(plugin)
            plugin.__class__ = terse(type(plugin))
            plugins.register(plugin)


def terse(worker: type[Any]) -> type[Any]:
    """A worker of pytest-xdist that sends what happened to a test, and of what was before and after it what went wrong."""

    class Terse(worker):  # type: ignore[misc]
        def pytest_runtest_logstart(self) -> None: ...

        def pytest_runtest_logfinish(self) -> None: ...

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.when == "call" or not report.passed or report.sections:
                super().pytest_runtest_logreport(report)

    return Terse

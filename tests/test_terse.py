"""What a worker does not tell is what nobody would read."""

import os
from types import SimpleNamespace

from tests.terse import terse


class Worker:
    def __init__(self):
        self.told = []

    def pytest_runtest_logreport(self, report):
        self.told.append((report.when, report.passed))


def test_what_went_wrong_or_was_printed_is_told_and_every_call():
    worker = terse(Worker)()
    for when in ("setup", "call", "teardown"):
        for passed in (True, False):
            worker.pytest_runtest_logreport(SimpleNamespace(when=when, passed=passed, sections=[]))
    assert worker.told == [("setup", False), ("call", True), ("call", False), ("teardown", False)]
    worker.pytest_runtest_logreport(
        SimpleNamespace(when="setup", passed=True, sections=[("Captured stdout setup", "x")])
    )
    assert len(worker.told) == 5


def test_workers_of_a_quiet_run_are_terse(request):
    options = request.config.option
    if (
        "PYTEST_XDIST_WORKER" in os.environ
        and options.verbose < 0
        and options.durations is None
        and options.xmlpath is None
    ):
        assert "Terse" in {type(plugin).__name__ for plugin in request.config.pluginmanager.get_plugins()}

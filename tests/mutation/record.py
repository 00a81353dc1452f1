"""Runs all tests once, and writes which line each of them executes: `python -m tests.mutation.record TREE FOLDER NAME TEST...`."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import coverage
import pytest
from coverage import Coverage, CoverageData

from tests.mutation.recording import PYTEST, Recording
from tests.mutation.tree import Tree

SILENT = ("tests/test_house.py", "tests/test_docs.py", "tests/mutation/")  # read the text of the code, or of pages


class _Plugin:
    """Tells coverage which test runs."""

    def __init__(self, measured: Coverage):
        self.measured = measured
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if sys.gettrace() is None:  # a test that traces lines itself has ended it
            self.measured.stop()
            self.measured.start()
        self.measured.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.failed.add(report.nodeid)


def record(tree: Tree, folder: Path, name: str, tests: list[str]) -> None:
    """Run `tests` in the tree, and write what they execute to `folder`/`name`.json."""
    parts = folder / f"{name}.parts"
    parts.mkdir(parents=True)
    tree.enter()
    measured = Coverage(
        data_file=str(parts / "part"), data_suffix=True, source=[str(tree.folder / "opshift")], config_file=False
    )
    plugin = _Plugin(measured)
    measured.start()
    _keep_what_copies_execute(measured)
    pytest.main([*PYTEST, *tests, *(f"--ignore={path}" for path in SILENT)], plugins=[plugin])
    measured.stop()
    measured.save()
    made = Recording()
    made.tests = [test for test in plugin.seconds if test not in plugin.failed]
    made.seconds = [plugin.seconds[test] for test in made.tests]
    number = {test: index for index, test in enumerate(made.tests)}
    for part in parts.iterdir():
        _read(part, tree, number, made)
    made.write(folder / f"{name}.json")
    print(f"{name}: {len(made.tests)} tests in {sum(made.seconds):.0f} s; failed: {sorted(plugin.failed)}")


def _keep_what_copies_execute(measured: Coverage) -> None:
    """A process that was forked ends by `os._exit`."""
    begun, leave = os.getpid(), os._exit

    def end(code: int) -> Any:
        try:
            if os.getpid() != begun:
                measured.stop()
                measured.save()
        except coverage.CoverageException:  # nothing new to save
            pass
        finally:
            leave(code)

    os._exit = end


def _read(part: Path, tree: Tree, number: dict[str, int], into: Recording) -> None:
    data = CoverageData(str(part))
    try:
        data.read()
    except coverage.CoverageException:  # of a process that was ended
        return
    for path in data.measured_files():
        file = tree.file(path)
        for line, tests in data.contexts_by_lineno(path).items():
            into.lines[file][line] |= sum(1 << number[test] for test in tests if test in number)


if __name__ == "__main__":
    record(Tree(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3], sys.argv[4:])

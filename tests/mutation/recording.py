"""Which test executes which line, and how long it takes: written once, by a run of all tests."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import coverage
import pytest
from coverage import Coverage, CoverageData

from tests.mutation.tree import Tree

SILENT = ("tests/test_house.py", "tests/test_docs.py", "tests/mutation/")  # read the text of the code, or of pages


class Recording:
    """The seconds of each test that passes, and the tests of each line, as bits of a number."""

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.seconds: list[float] = []
        self.lines: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))

    def add(self, path: Path) -> None:
        """What a file holds, beside what is known."""
        held, base = json.loads(path.read_text(encoding="utf-8")), len(self.tests)
        self.tests += held["tests"]
        self.seconds += held["seconds"]
        for file, lines in held["lines"].items():
            for line, bits in lines.items():
                self.lines[file][int(line)] |= int(bits, 16) << base

    def write(self, path: Path) -> None:
        lines = {file: {str(n): f"{bits:x}" for n, bits in sorted(found.items())} for file, found in self.lines.items()}
        held = {"tests": self.tests, "seconds": [round(s, 3) for s in self.seconds], "lines": lines}
        path.write_text(json.dumps(held), encoding="utf-8")

    def reaching(self, file: str, lines: set[int]) -> list[int]:
        """The tests, by index, that execute one of some lines."""
        bits = 0
        for line in lines & set(self.lines.get(file, ())):
            bits |= self.lines[file][line]
        return [index for index, digit in enumerate(reversed(f"{bits:b}")) if digit == "1"]


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


PYTEST = ["-q", "--rootdir=.", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]


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

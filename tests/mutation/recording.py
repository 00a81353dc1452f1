"""Which test executes which line, and how long it takes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

PYTEST = ["-q", "--rootdir=.", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]


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

    def within(self, files: Collection[str]) -> list[int]:
        """The tests, by index, of some files."""
        return [index for index, test in enumerate(self.tests) if test.split("::")[0] in files]

    def reaching(self, file: str, lines: set[int]) -> list[int]:
        """The tests, by index, that execute one of some lines."""
        bits = 0
        for line in lines & set(self.lines.get(file, ())):
            bits |= self.lines[file][line]
        return [index for index, digit in enumerate(reversed(f"{bits:b}")) if digit == "1"]

"""What is mutated: the rooms of each area, and how mutants are drawn from them."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator
from typing import Any

from tests.mutation.mutations import Mutant, mutants
from tests.mutation.recording import Recording
from tests.mutation.tree import ROOT

AREAS = {
    "operators": ["passes/operators"],
    "engine": [f"passes/{room}" for room in ("conversion", "inlining", "rewrite", "analysis", "model", "stages")],
    "refinement": ["passes/fusion", "passes/optimization"],
    "files": ["opshift/files"],
    "verification": ["opshift/verification"],
}
Key = tuple[Any, ...]


def key(mutant: dict[str, Any]) -> Key:
    """What stays of a mutant when lines move."""
    return tuple(mutant[name] for name in ("file", "text", "old", "new", "nth"))


class Area:
    """The sources of an area, and what may be changed in them."""

    def __init__(self, name: str):
        files = sorted(path for folder in AREAS[name] for path in (ROOT / folder).rglob("*.py"))
        self.sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
        self.bodies = {file: bodies(source) for file, source in self.sources.items()}

    def drawn(self, recording: Recording, seed: int, count: int) -> list[Mutant]:
        """One mutant of each of `count` lines that tests execute."""
        by_line: dict[tuple[str, int], list[Mutant]] = {}
        for mutant in self.all():
            if mutant.line in recording.lines.get(mutant.file, ()):
                by_line.setdefault((mutant.file, mutant.line), []).append(mutant)
        chance = random.Random(seed)
        lines = chance.sample(sorted(by_line), min(count, len(by_line)))
        return [chance.choice(by_line[line]) for line in lines]

    def again(self, wanted: Iterable[Key]) -> list[Mutant]:
        """The same mutants in the code as it is now."""
        keys = set(wanted)
        return [m for m in self.all() if (m.file, m.text, m.old, m.new, m.nth) in keys]

    def all(self) -> Iterator[Mutant]:
        """Every mutant of the code as it is now."""
        for file, source in self.sources.items():
            yield from mutants(file, source)


def bodies(source: str) -> set[int]:
    """The lines of functions, without those that their definition executes."""
    return {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)
    }

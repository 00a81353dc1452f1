"""`python -m tests.mutation --area operators --count 200 --seed 0`: mutants, drawn from the lines that tests execute, and who kills them."""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.mutation.mutations import Mutant, mutants
from tests.mutation.recording import Recording
from tests.mutation.tree import ROOT, Tree
from tests.mutation.trial import Trial, judges, run

AREAS = {
    "operators": ["passes/operators"],
    "engine": [f"passes/{room}" for room in ("conversion", "inlining", "rewrite", "analysis", "model")],
    "refinement": ["passes/fusion", "passes/optimization"],
    "files": ["opshift/files"],
    "verification": ["opshift/verification"],
}


class Area:
    """The sources of an area, and what may be changed in them."""

    def __init__(self, name: str):
        files = sorted(path for folder in AREAS[name] for path in (ROOT / folder).rglob("*.py"))
        self.sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
        self.bodies = {file: _bodies(source) for file, source in self.sources.items()}

    def drawn(self, recording: Recording, seed: int, count: int) -> list[Mutant]:
        """One mutant of each of `count` lines that tests execute."""
        by_line: dict[tuple[str, int], list[Mutant]] = {}
        for file, source in self.sources.items():
            for mutant in mutants(file, source):
                if mutant.line in recording.lines.get(file, ()):
                    by_line.setdefault((file, mutant.line), []).append(mutant)
        chance = random.Random(seed)
        lines = chance.sample(sorted(by_line), min(count, len(by_line)))
        return [chance.choice(by_line[line]) for line in lines]

    def again(self, wanted: list[dict[str, object]]) -> Iterator[Mutant]:
        """The same mutants in the code as it is now."""
        for file, source in self.sources.items():
            keys = {(m["text"], m["old"], m["new"], m["nth"]) for m in wanted if m["file"] == file}
            for mutant in mutants(file, source):
                if (mutant.text, mutant.old, mutant.new, mutant.nth) in keys:
                    yield mutant


def _bodies(source: str) -> set[int]:
    """The lines of functions, without those that their definition executes."""
    return {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)
    }


def main() -> int:
    """Judge what is asked for, print each fate, and append it to a file of the folder."""
    options = _options()
    folder = options.folder.resolve()
    tree = Tree(folder / "tree")
    if options.record or not (folder / "records").exists():
        tree.fill()
        (folder / "records").mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tests.mutation.recording", tree.folder, folder / "records", "all", "tests"]
        subprocess.run(command, check=True, cwd=tree.folder)
    recording = Recording()
    for path in sorted((folder / "records").glob("*.json")):
        recording.add(path)
    tree.fill()
    area = Area(options.area)
    results = folder / f"{options.area}.jsonl"
    known = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if options.again:
        chosen = list(area.again([row["mutant"] for row in latest(known) if row["fate"] != "killed"]))
    else:
        done = {key(row) for row in known}
        drawn = area.drawn(recording, options.seed, options.count)
        chosen = [m for m in drawn if key({"mutant": asdict(m)}) not in done]
    for mutant in chosen:
        tests = judges(recording, mutant, area.bodies[mutant.file], options.budget)
        trial = run(tree, recording, mutant, area.sources[mutant.file], tests)
        with results.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(trial)) + "\n")
        print(said(trial), flush=True)
    return 0


def key(row: dict[str, dict[str, object]]) -> tuple[object, ...]:
    """Which mutant a row is about."""
    return tuple(row["mutant"][name] for name in ("file", "text", "old", "new", "nth"))


def latest(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Of each mutant, what was found last."""
    return list({key(row): row for row in rows}.values())  # type: ignore[arg-type]


def said(trial: Trial) -> str:
    """One line."""
    m = trial.mutant
    return f"{trial.fate:9} {trial.seconds:5.1f} s {trial.tests:5} tests  {m.file}:{m.line}: `{m.text}`: {m.old} -> {m.new}  {trial.by}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--area", choices=AREAS, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=20, help="seconds of tests for one mutant")
    parser.add_argument("--folder", type=Path, default=Path("build/mutation"), help="of the recording and the results")
    parser.add_argument("--record", action="store_true", help="run all tests once more to learn what each executes")
    parser.add_argument("--again", action="store_true", help="judge the survivors once more")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

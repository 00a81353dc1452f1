"""`python -m tests.lab mutation --area operators --count 200 --seed 0`: mutants of lines that tests execute, and who kills them."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tests.mutation.areas import AREAS, Area, Key, key
from tests.mutation.recording import Recording
from tests.mutation.report import Row, equivalents, markdown, place
from tests.mutation.sessions import apart, judge_bodies, judge_imports
from tests.mutation.tree import Tree
from tests.mutation.trial import KILLED, UNJUDGED, Trial, task


def main() -> int:
    """Judge what is asked for, print each fate and keep it in the folder; or write the page of what is kept there."""
    options = _options()
    folder = options.folder.resolve()
    if options.markdown:
        _publish(options.markdown, folder)
        return 0
    tree = Tree(folder / "tree")
    tree.fill()
    recording = _recording(tree, folder / "records", renew=options.record)
    area, results = Area(options.area), folder / f"{options.area}.jsonl"
    rows = _known(results)
    if options.again:
        alive = [row["mutant"] for row in rows.values() if row["fate"] != KILLED]
        chosen = area.again(key(mutant) for mutant in alive if place(mutant) not in equivalents())
    else:
        chosen = [m for m in area.drawn(recording, options.seed, options.count) if key(asdict(m)) not in rows]
    tasks = [task(recording, m, area.sources[m.file], area.bodies[m.file], options.budget) for m in chosen]

    def report(trial: Trial) -> None:
        with results.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(trial)) + "\n")
        print(_said(trial), flush=True)

    inside = [given for given in tasks if given.tests and not given.at_import]
    earlier = len(_lines(results))
    apart(lambda: judge_bodies(tree, inside, report))
    judged = {name for name, row in _known(results, earlier).items() if row["fate"] != UNJUDGED}
    judge_imports(tree, [given for given in tasks if key(asdict(given.mutant)) not in judged], report)
    return 0


def _publish(page: Path, folder: Path) -> None:
    """Write what became of those mutants that are in the code now; say which arguments are about others."""
    known, argued = dict[str, list[Row]](), equivalents()
    stale = set(argued)
    for name in AREAS:
        rows = _known(folder / f"{name}.jsonl")
        mutants = [asdict(mutant) for mutant in Area(name).all()]
        known[name] = [{**rows[key(mutant)], "mutant": mutant} for mutant in mutants if key(mutant) in rows]
        stale -= set(map(place, mutants))
    page.write_text(markdown(known, argued), encoding="utf-8")
    for file, line, change, _ in sorted(stale):
        print(f"not in the code any more: {file}: `{line}`: {change}")


def _recording(tree: Tree, folder: Path, *, renew: bool) -> Recording:
    if renew or not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tests.mutation.record", tree.folder, folder, "all", "tests"]
        subprocess.run(command, check=True, cwd=tree.folder)
    recording = Recording()
    for path in sorted(folder.glob("*.json")):
        recording.add(path)
    return recording


def _known(results: Path, since: int = 0) -> dict[Key, Row]:
    """Of each mutant, what was found last, from a line of the results on."""
    return {key(row["mutant"]): row for row in map(json.loads, _lines(results)[since:])}


def _lines(results: Path) -> list[str]:
    return results.read_text(encoding="utf-8").splitlines() if results.exists() else []


def _said(trial: Trial) -> str:
    m = trial.mutant
    place = f"{m.file}:{m.line}: `{m.text}`: {m.old} -> {m.new}"
    return f"{trial.fate:8} {trial.seconds:6.1f} s {trial.tests:5} tests  {place}  {trial.by}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab mutation", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--area", choices=AREAS)
    what.add_argument("--markdown", type=Path, help="write the page of all areas that were judged")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=20, help="seconds of tests for one mutant")
    parser.add_argument("--folder", type=Path, default=Path("build/mutation"), help="of the recording and the results")
    parser.add_argument("--record", action="store_true", help="run all tests once more to learn what each executes")
    parser.add_argument("--again", action="store_true", help="judge once more what survived and is not equivalent")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

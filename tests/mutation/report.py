"""What became of the mutants of each area, as a page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Row = dict[str, Any]
Place = tuple[str, str, str, int]
"""A file, a line of it, a change, and which of those that read the same."""
TABLE = Path(__file__).with_name("equivalent.toml")
SAMPLES = Path(__file__).with_name("fresh.toml")

EXPLAINED = """# Mutation testing

Written by `python -m tests.lab mutation --markdown docs/mutation.md`; do not edit.

Do the tests notice when the code is wrong? A mutant is the code with one place changed: a comparison, a boolean operator, an
arithmetic operator, a constant (one more, another name), a guard or a `raise` or a call left out, branches swapped, a keyword
dropped, a result that is not returned. The tests that execute the place run, nearest first, until one of them fails: the mutant is **killed**.
So it is if the tests do not come to an end. A mutant that no test kills has **survived**, and stands below, unless it is
**equivalent**: what it does differs in nothing that a test could demand, for the reason that stands beside it.

The tests of one mutant have a few seconds (`--budget`), the nearest and fastest of them first, and those that are new since the recording
are not among them before it is made anew: a mutant that is only killed by others counts as a survivor.

The lines are drawn uniformly, by seed, from those that tests execute and that hold something to change, one mutant a line:
`python -m tests.lab mutation --area AREA --count COUNT --seed 0`. Not changed are texts that people read, types, decorators, imports
and assertions (`strict=True` is one). The score is the share of those killed among those that are not equivalent.
"""


def equivalents(path: Path = TABLE) -> dict[Place, str]:
    """Why a change of a line makes no difference."""
    held = tomllib.loads(path.read_text(encoding="utf-8"))["equivalent"]
    return {(row["file"], row["line"], row["change"], row.get("nth", 0)): row["why"] for row in held}


FRESH = """
## Fresh seeds

The table above says more of those mutants than of others: tests were written for many that had survived. What the tests of an area's own
rooms notice of mutants that nobody has looked at yet, in the order in which they were drawn; the recording was of these rooms, or of few
others, on a busy machine, so that what only other tests notice, or those for which there was no time, counts as survived. *Looked at* tells the
day and the commit, for the newer ones. *Since* are those of them that tests kill now, which were written for their kind:

| area | seed | looked at | mutants | killed | equivalent | score | since |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def fresh(path: Path = SAMPLES) -> str:
    """What became of samples at the first look."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["sample"]
    return FRESH + "".join(
        f"| {r['area']} | {r['seed']} | {r.get('at', '')} | {r['mutants']} | {r['killed']} | {r['equivalent']} | "
        f"{r['killed'] / (r['mutants'] - r['equivalent']):.1%} | {r['since']} |\n"
        for r in rows
    )


def place(mutant: Row) -> Place:
    return mutant["file"], mutant["text"], f"{mutant['old']} -> {mutant['new']}", mutant["nth"]


def markdown(areas: dict[str, Sequence[Row]], argued: dict[Place, str]) -> str:
    """The score of each area, and what survived in it."""
    counts, parts = [], []
    for area, rows in areas.items():
        alive = [row["mutant"] for row in rows if row["fate"] != "killed"]
        equal = [(m, argued[place(m)]) for m in alive if place(m) in argued]
        left = [row for row in rows if row["fate"] != "killed" and place(row["mutant"]) not in argued]
        killed, judged = len(rows) - len(alive), len(rows) - len(equal)
        counts.append(f"| {area} | {len(rows)} | {killed} | {len(equal)} | {len(left)} | {killed / judged:.1%} |")
        parts.append(f"## {area.capitalize()}\n\n{_survivors(left)}\n{_equal(equal)}")
    head = "| area | mutants | killed | equivalent | survived | score |\n| --- | --- | --- | --- | --- | --- |"
    return "\n".join([EXPLAINED, head, *counts, fresh(), *parts])


def _survivors(left: Sequence[Row]) -> str:
    if not left:
        return "None survived.\n"
    rows = [
        f"| {m['file']}:{m['line']} | {_code(m['text'])} | {_code(m['old'])} | {_code(m['new'])} | {row['tests']} |"
        for row in left
        for m in [row["mutant"]]
    ]
    head = ["| survived in | line | is | becomes | tests that ran |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *rows, ""])


def _equal(equal: Sequence[tuple[Row, str]]) -> str:
    rows = [
        f"| {m['file']}:{m['line']} | {_code(m['text'])} | {_code(m['old'])} | {_code(m['new'])} | {why} |"
        for m, why in equal
    ]
    head = ["| equivalent in | line | is | becomes | because |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *rows, ""]) if rows else ""


def _code(text: str) -> str:
    marks = "``" if "`" in text else "`"
    return f"{marks}{text}{marks}".replace("|", "\\|")

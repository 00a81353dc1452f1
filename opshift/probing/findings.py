"""What was found out of each operator, and the file that keeps it, so that a measurement can go on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from opshift.passes.backends import door as backends
from opshift.passes.backends.door import MeasuredCall, Value
from opshift.passes.model.traversal import Op


@dataclass
class Finding:
    """What a backend makes of one operator.

    Attributes:
        newest: the newest version that agrees with a published sample; 0 if none does.
        missing: the oldest version above it that was tried and does not; 0 if there is none.
        verdicts: how the samples at the newest version that it reads came out.
        constant: the inputs, by formal name, that had to be constants.
        called: the ranks that it was seen to agree with, and whether open sizes, too.
        oldest: the oldest version that agrees, where one below it was tried and does not.
        refused: the values of attributes with which no call agrees.
        unused: the optional inputs with which no call agrees.
    """

    newest: int = 0
    missing: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    constant: frozenset[str] = frozenset()
    called: MeasuredCall | None = None
    oldest: int = 0
    refused: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()


def read(path: Path | None) -> dict[Op, Finding]:
    """What a file keeps, a line for each operator; a line that was not written to its end is left out."""
    found: dict[Op, Finding] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else ():
        try:
            held = json.loads(line)
        except ValueError:
            continue
        called = held.pop("called")
        domain, op = held.pop("op")
        found[domain, op] = Finding(
            **{
                **held,
                "verdicts": Counter(held["verdicts"]),
                "constant": frozenset(held["constant"]),
                "refused": {name: tuple(values) for name, values in held["refused"].items()},
                "unused": tuple(held["unused"]),
            },
            called=backends.read_measured(op, called) if called else None,
        )
    return found


def add(path: Path | None, op: Op, finding: Finding) -> None:
    """Keep what was found of an operator."""
    if path is None:
        return
    held = {
        "op": op,
        "newest": finding.newest,
        "missing": finding.missing,
        "oldest": finding.oldest,
        "verdicts": dict(finding.verdicts),
        "constant": sorted(finding.constant),
        "called": backends.spell_call(finding.called) if finding.called is not None else "",
        "refused": finding.refused,
        "unused": finding.unused,
    }
    with path.open("a", encoding="utf-8", newline="\n") as file:
        file.write(f"{json.dumps(held)}\n")

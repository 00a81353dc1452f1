"""Keeps what was found by trying as a target file, which says the same of other models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opshift.files.writing import writing
from opshift.passes.backends import door as backends
from opshift.passes.backends.door import Backend
from opshift.trying.remedies import EXPAND, OPSET
from opshift.trying.search import DIFFERS
from opshift.trying.tried import Learnt, Tried


def check(path: Path) -> None:
    """Raise `ValueError` where nothing could be kept at a path: before a search is what says so."""
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--learn {path}: the folder of this file does not exist; create it first")
    if path.exists():
        try:
            backends.read(path)
        except IsADirectoryError:
            raise ValueError(f"--learn {path}: this file exists and is not a target file; give a new name") from None


def learn(path: Path, target: Backend, tried: Tried, *, file: str = "") -> bool:
    """Write what a target file would say had it known; returns whether there is anything to say.

    What the file at that path says already stays, if it is one; `file` is the one that the target is of, if it is the
    user's own.

    Raises:
        CannotWrite: the file cannot be written.
        ValueError: there is a file that is none.
    """
    if not tried.learnt:
        return False
    stem, _, version = target.name.rpartition("-")
    held: dict[str, Any] = {"base": os.path.abspath(file) if file else target.name}
    if path.exists():
        held = backends.loads(backends.text_of(path), str(path))
        backends.read(path)
    said = f"learnt by `opshift inline --try` with {tried.backend}"
    limits = [*held.get("limits", ()), *(row for row in _limits(tried) if row not in held.get("limits", ()))]
    row = dict(next(iter(held.get("versions", {}).values()), {}))
    row["lacks"] = sorted({*row.get("lacks", ()), *(learnt.what for learnt in tried.learnt if _is_lacked(learnt))})
    opsets = [int(learnt.what) for learnt in tried.learnt if learnt.kind == OPSET]
    if opsets:
        row["opset"] = min(*opsets, row.get("opset", opsets[0]))
    others = [
        f"# Besides: {learnt.describe(tried.backend)}." for learnt in tried.learnt if learnt.kind not in (EXPAND, OPSET)
    ]
    facts = {key: value for key, value in row.items() if value != []}
    text = backends.write(stem, f"{stem}, as tried", said, version, facts, limits, others, base=held.get("base", ""))
    with writing(path):
        path.write_text(text, encoding="utf-8", newline="\n")
    return True


def _is_lacked(learnt: Learnt) -> bool:
    """Whether an operator is not read at all, as far as was seen."""
    return learnt.kind == EXPAND and not learnt.symbolic


def _limits(tried: Tried) -> Iterator[dict[str, Any]]:
    """Operators that are not read where sizes are open."""
    for learnt in tried.learnt:
        if learnt.kind == EXPAND and learnt.symbolic:
            verb = "computes otherwise" if learnt.status == DIFFERS else learnt.why or learnt.status
            yield {"ops": [learnt.what], "symbolic": False, "why": verb[:200], "source": f"tried with {tried.backend}"}

"""What a person is told of a model that was tried in an installed backend."""

from __future__ import annotations

from opshift.cli.printing import join_names
from opshift.trying.door import DIED, DIFFERS, HUNG, IMPOSSIBLE, UNTRIED, Tried

_CAME_TO = {
    DIFFERS: "runs it, and computes otherwise",
    DIED: "does not survive it",
    HUNG: "comes to no end",
    IMPOSSIBLE: "was not tried",
    UNTRIED: "was not tried",
}


def describe_trial(tried: Tried) -> list[str]:
    """What was found and done, line by line, and what came of it."""
    lines = [f"installed is {tried.backend}; the target is {tried.other}"] if tried.other else []
    lines += tried.lines
    if tried.as_it_is:
        lines.append("what the target's file says was left aside")
    if tried.learn:
        lines.append(f"kept in {tried.learn}")
    counted = f"{tried.tries} {'try' if tried.tries == 1 else 'tries'}"
    if tried.agrees:
        return [*lines, f"runs in {tried.backend} and agrees with the source ({counted})"]
    lines.append(f"{tried.backend} {_CAME_TO.get(tried.status, 'refuses it')} ({counted}): {tried.why}")
    if tried.operator:
        node = f' "{tried.node}"' if tried.node else ""
        nodes = f"{tried.nodes} node{'s' if tried.nodes != 1 else ''}"
        lines.append(f"it fails at {tried.operator}{node}; the smallest piece that shows it has {nodes}")
    if tried.repro:
        lines.append(f"that piece is in {tried.repro}")
    return lines


def ending(tried: Tried) -> str:
    """Why nothing was written, and what to try."""
    left = [f"--fix-shape with numbers for {join_names(tried.open)}"] if tried.open else []
    if tried.bounded:
        left.append("--tries or --seconds, as the search ended early")
    if tried.operator and not tried.repro:
        left.append("--repro DIR, which writes the smallest piece that fails")
    said = f"; try {', or '.join(left)}" if left else ""
    what = "computes otherwise" if tried.status == DIFFERS else "does not run it"
    return f"not written: {tried.backend} {what}, and nothing that was tried helps{said}"

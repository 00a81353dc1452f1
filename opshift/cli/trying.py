"""Report how a model was tried in an installed backend (`--try`)."""

from __future__ import annotations

import math

from opshift.cli.printing import join_names
from opshift.trying.door import DIED, DIFFERS, HUNG, IMPOSSIBLE, UNTRIED, Tried

_CAME_TO = {
    DIFFERS: "runs it, but with other results",
    DIED: "crashes on it",
    HUNG: "does not finish",
    IMPOSSIBLE: "was not tried",
    UNTRIED: "was not tried",
}


def describe_trial(tried: Tried) -> list[str]:
    """Write the lines of a trial: changes, distances of outputs, and whether the backend runs the model."""
    lines = [f"the installed backend is {tried.backend}, the target {tried.other}"] if tried.other else []
    lines += tried.lines
    if tried.as_it_is:
        lines.append("ignoring the target file")
    if tried.learn:
        lines.append(f"saved in {tried.learn}")
    counted = f"{tried.tries} {'try' if tried.tries == 1 else 'tries'}"
    if tried.far >= 0:
        before = tried.before
        was = "" if before is None else f"; as it was, {_far(before.far) if before.far >= 0 else before.status}"
        lines.append(f"outputs are off by {_far(tried.far)}{was}")
    if tried.agrees:
        where = f" ({tried.where})" if tried.where else ""
        return [*lines, f"runs in {tried.backend}{where} with the same results ({counted})"]
    lines.append(f"{tried.backend} {_CAME_TO.get(tried.status, 'refuses it')} ({counted}): {tried.why}")
    if tried.operator:
        node = f' "{tried.node}"' if tried.node else ""
        nodes = f"{tried.nodes} node{'s' if tried.nodes != 1 else ''}"
        lines.append(f"it fails at {tried.operator}{node}; the smallest model that shows it has {nodes}")
    if tried.repro:
        lines.append(f"that model is in {tried.repro}")
    return lines


def _far(part: float) -> str:
    if part == 0:
        return "nothing"
    return f"{100 * part:.2g} % of the largest element" if part < math.inf else "more than can be said"


def ending(tried: Tried) -> str:
    """Write the last line of a trial that failed: why nothing was written, and what to try."""
    left = [f"--fix-shape with numbers for {join_names(tried.open)}"] if tried.open else []
    if tried.bounded:
        left.append("more --tries or --seconds, as the search stopped early")
    if tried.operator and not tried.repro:
        left.append("--repro DIR, which writes the smallest model that fails")
    said = f"; try {', or '.join(left)}" if left else ""
    what = "computes otherwise" if tried.status == DIFFERS else "does not run it"
    return f"not written: {tried.backend} {what}, and no replacement helped{said}"

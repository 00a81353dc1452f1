"""What the command line shows: a table before and after, or JSON for pipelines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING

from opshift.cli.printing import printable
from opshift.jobs.batch import FileResult
from opshift.jobs.exit_codes import DEFECT, DIFFERENT, DONE, REFUSED, UNREADABLE, UNWRITABLE, USAGE
from opshift.jobs.optional import TakenBack
from opshift.jobs.outcome import Facts, Fate, Outcome, Prospect, blamed, fed, remarked, verdict
from opshift.passes.backends.backend import Backend
from opshift.passes.changes import Change, Result
from opshift.passes.errors import Refusal
from opshift.passes.model import schemas

if TYPE_CHECKING:
    from rich.console import Console


def show(outcome: Outcome, console: Console | None) -> None:
    """The same for a person: before and after, what changed and how, and what was proved.

    Without a console (the output goes to a file or a pipe) the table is plain lines, and rich is not imported.
    """
    after = outcome.after
    rows = _rows(outcome.before, after or outcome.before)
    _tabulate(rows if after else [row[:2] for row in rows], console)
    for line in _changes(outcome.changes):
        say(line, console)
    if outcome.idle:
        say("nothing to inline", console)
    if outcome.folded == 0 and not outcome.taken_back:
        say("nothing to fold", console)
    for line in _taken_back(outcome.taken_back):
        say(line, console)
    for refusal in outcome.refusals:
        say(f"refused: {refusal}", console, style="red")
    for need in outcome.needs:
        say(f"left to you: {need}", console)
    if outcome.refusals and outcome.nearest is not None:
        say(f"nearest opset that can be reached: {outcome.nearest}", console)
    for line in _closing(outcome):
        say(line, console)


def say(line: str, console: Console | None = None, style: str | None = None) -> None:
    """Print one line, at once."""
    line = printable(line)
    if console is None:
        print(line, flush=True)
    else:
        console.print(line, style=style, highlight=False, markup=False)


def _tabulate(rows: Sequence[Sequence[str]], console: Console | None) -> None:
    """Rows of a label and one or two values; what differs is bold."""
    if console is None:
        for label, *values in rows:
            say(f"{label}: {' -> '.join(dict.fromkeys(values))}")
        return
    from rich.table import Table

    table = Table("", *("before", "after")[: len(rows[0]) - 1])
    for row in rows:
        table.add_row(*map(printable, row), style="bold" if len(set(row[1:])) > 1 else None)
    console.print(table)


def inspection(found: Facts, fates: Mapping[str, Fate], reach: Mapping[int, Result], console: Console | None) -> None:
    """What a model consists of, domain after domain, and what stands in the way of each opset."""
    rows = [row[:2] for row in _rows(found, found)]
    ops = sorted(found.ops.items(), key=lambda item: (item[0].rpartition("::")[0], item[0]))
    _tabulate([*rows, *((f"  {op}", f"{count}{_fate(fates.get(op))}") for op, count in ops)], console)
    say(f"opsets that can be reached: {_ranges([o for o, r in reach.items() if not r.refusals])}", console)
    first: dict[str, list[int]] = {}
    for opset, result in reach.items():
        for text in dict.fromkeys(f"{r.op}: {r.why}" for r in result.refusals):
            first.setdefault(text, []).append(opset)
    for text, opsets_blocked in first.items():
        say(f"not at {_ranges(opsets_blocked)}: {text}", console)


def _fate(of: Fate | None) -> str:
    if of is None:
        return ""
    return f", becomes {of.becomes}" if of.becomes else f", stays: {of.refused}"


def prospect(found: Facts, held: Prospect, console: Console | None) -> None:
    """What a target thinks of a model, the nodes of one operator and one reason in one line."""
    _tabulate([*(row[:2] for row in _rows(found, found)), ("target", held.target)], console)
    for line in _grouped(held.obstacles):
        say(f"not read: {line}", console)
    if not held.refusals:
        for line in _changes(held.changes):
            say(f"would be rewritten: {line}", console)
    for line in _grouped(held.refusals):
        say(f"would be refused: {line}", console, style="red")
    for need in held.needs:
        say(f"left to you: {need}", console)
    if held.refusals:
        say(f"{held.target} does not read this model, and it cannot be rewritten for it", console)
    elif held.obstacles:
        say(f"`opshift inline --target {held.target}` makes it a model that {held.target} reads", console)
    else:
        say(f"{held.target} reads this model as it is", console)


def _grouped(refusals: Sequence[Refusal]) -> list[str]:
    """One line for each operator and reason, with the nodes."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for r in refusals:
        op = f"{r.domain}::{r.op}" if r.domain else r.op
        place = ", ".join(filter(None, [r.where, r.boundary]))
        quoted = f'"{r.node}"'
        why = r.why.replace(quoted, "it") if r.op == "value" else r.why
        groups.setdefault((op, place, why), []).append(quoted if r.node else "")
    lines = []
    for (op, place, why), nodes in groups.items():
        count = f"{len(nodes)} x " if len(nodes) > 1 else ""
        names = " ".join(filter(None, [*nodes[:3], f"and {len(nodes) - 3} more" if len(nodes) > 3 else ""]))
        lines.append(f"{count}{op}{f' ({place})' if place else ''}: {why}{f': {names}' if names else ''}")
    return lines


def targets(backends: Sequence[Backend], console: Console | None) -> None:
    """One line for each target; what a source does not say is a dash."""
    rows = [
        (
            backend.name,
            str(backend.opset or "-"),
            str(backend.ir_version or "-"),
            str(len(backend.missing("", backend.opset or schemas.latest()))),
            backend.source,
        )
        for backend in backends
    ]
    if console is None:
        for name, opset, ir, missing, source in rows:
            print(f"{name:20} opset {opset:>2}  IR {ir:>2}  lacks {missing:>3}  {source}")
        return
    from rich.table import Table

    table = Table("target", "opset", "IR", "lacks", "source")
    for row in rows:
        table.add_row(*row)
    console.print(table)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on the standard error stream for what takes long, told the step's name, place and count; None in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda name, place, count: bar.update(task, description=name, completed=place, total=count)


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as `7-12, 15`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) or "none"


def _rows(before: Facts, after: Facts) -> list[tuple[str, str, str]]:
    rows = [
        (
            f"opset {domain or 'ai.onnx'}",
            str(before.opsets.get(domain, "-")),
            str(after.opsets.get(domain, "-")),
        )
        for domain in dict.fromkeys([*before.opsets, *after.opsets])
    ]
    rows.append(("IR version", str(before.ir_version), str(after.ir_version)))
    if before.functions or after.functions:
        rows.append(("functions", str(before.functions), str(after.functions)))
    rows.append(("nodes", str(before.nodes), str(after.nodes)))
    rows += [
        (f"  {op}", str(before.ops.get(op, 0)), str(after.ops.get(op, 0)))
        for op in sorted({*before.ops, *after.ops})
        if before.ops.get(op, 0) != after.ops.get(op, 0)
    ]
    rows.append(("size", _bytes(before.size), _bytes(after.size)))
    return rows


def _changes(changes: Sequence[Change]) -> list[str]:
    counted = Counter(map(itemgetter(1, 3, 4, 5, 6, 7), changes))  # all but the node and the domain
    lines = []
    for (op, source, target, how, grade, remark), count in sorted(counted.items()):
        rung = f"{source} -> {target}" if source != target else f"at {source}"
        note = f" ({remark})" if remark else ""
        lines.append(f"{count} x {op} {rung}, {grade}: {how}{note}")
    return lines


def _taken_back(found: Sequence[TakenBack]) -> list[str]:
    """One line for each operator and manner, with the first node and what was seen there."""
    groups: dict[tuple[str, str], list[TakenBack]] = {}
    for back in found:
        groups.setdefault((back.change.op, back.change.how), []).append(back)
    return [
        f'taken back: {len(alike)} x {op}: {how} (first at "{alike[0].change.node}"; with it, {alike[0].why})'
        for (op, how), alike in groups.items()
    ]


def _closing(outcome: Outcome) -> list[str]:
    spent = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in outcome.seconds.items())
    if outcome.after is None:
        return [f"time: {spent}"]
    lines = [f"grade: {outcome.grade}; time: {spent}"]
    lines.append(verdict(outcome.verification) if outcome.verification is not None else "not verified")
    lines += [f"done there: {line}" for line in _changes(blamed(outcome))]
    if outcome.verification is not None and (inputs := fed(outcome.verification)):
        lines += [inputs, *remarked(outcome.verification)]
    if outcome.output:
        lines.append(f"written to {outcome.output}")
    elif outcome.verification is not None:
        lines.append("nothing was written")
    if outcome.verification is not None and outcome.verification.status == "unverified":
        lines.append("--no-verify writes a model that nobody has run")
    return lines


def _bytes(size: int) -> str:
    from rich.filesize import decimal

    return decimal(size)


WORDS = {
    DONE: "done",
    DEFECT: "defect",
    USAGE: "not possible",
    REFUSED: "refused",
    DIFFERENT: "different",
    UNREADABLE: "unreadable",
    UNWRITABLE: "cannot be written",
}


def line(result: FileResult) -> str:
    """What became of a model, in one line."""
    place = f"{result.source} -> {result.output}" if result.output else result.source
    return f"{WORDS[result.code]}: {place}: {_told(result)}"


def _told(result: FileResult) -> str:
    outcome = result.outcome
    if result.why or outcome is None:
        return result.why
    proved = verdict(outcome.verification) if outcome.verification is not None else "not verified"
    done = [f"{len(outcome.changes)} changes, {outcome.grade}"]
    if outcome.taken_back:
        done.append(f"{len(outcome.taken_back)} taken back")
    elif outcome.idle:
        done.append("nothing to inline")
    elif outcome.folded == 0:
        done.append("nothing to fold")
    return "; ".join([*done, proved])


def summarize(results: Sequence[FileResult], console: Console | None) -> None:
    """How many of each; on a terminal below a table of all."""
    if console is not None:
        from rich.table import Table
        from rich.text import Text

        table = Table("model", "", "opset", "what was done")
        for result in results:
            cells = (result.source, WORDS[result.code], _opsets(result.outcome), _told(result))
            table.add_row(*(Text(printable(cell)) for cell in cells), style="red" if result.code else None)
        console.print(table)
    counted = Counter(result.code for result in results)
    told = ", ".join(f"{counted[code]} {word}" for code, word in WORDS.items() if counted[code])
    say(f"{len(results)} models: {told}", console)


def _opsets(outcome: Outcome | None) -> str:
    """The default domain's opset before and after."""
    held = [] if outcome is None else [facts.opsets.get("") for facts in (outcome.before, outcome.after) if facts]
    return " -> ".join(dict.fromkeys(map(str, filter(None, held))))

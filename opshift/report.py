"""What the command line shows: a table before and after, or JSON for pipelines."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from opshift.cli import printable
from opshift.passes import schemas
from opshift.passes.backend import Backend
from opshift.passes.changes import Change
from opshift.passes.convert import Result, opsets
from opshift.passes.errors import Refusal
from opshift.passes.names import census
from opshift.passes.protos import ELEMENT_TYPES, ModelProto
from opshift.verification import Verification

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Facts:
    """What a model file is, in numbers. `size` is in bytes, without external data."""

    opsets: dict[str, int]
    ir_version: int
    nodes: int
    functions: int
    size: int
    ops: dict[str, int]


@dataclass(frozen=True)
class Outcome:
    """A conversion from file to file, as it is reported.

    `seconds` holds the time of each phase, `folded` how many operators were recognised, None where nobody asked.
    """

    source: str
    output: str
    before: Facts
    after: Facts | None
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    grade: str
    seconds: dict[str, float]
    nearest: int | None = None
    verification: Verification | None = None
    needs: tuple[Refusal, ...] = ()
    folded: int | None = None


@dataclass(frozen=True)
class Prospect:
    """What a target thinks of a model: what it does not read, what would be rewritten for it, what would be refused.

    `needs` is what is left to the user: dimensions without a number.
    """

    target: str
    obstacles: tuple[Refusal, ...]
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    needs: tuple[Refusal, ...]


def facts(model: ModelProto, size: int, calls: Mapping[tuple[str, str], int] | None = None) -> Facts:
    """What a model consists of, its subgraphs and functions included; `calls` of operators, where they are known."""
    ops: Counter[str] = Counter()
    for (domain, op), count in (census([*model.functions, model.graph])[1] if calls is None else calls).items():
        ops[f"{text(domain)}::{text(op)}" if domain else text(op)] += count
    return Facts(
        opsets(model),
        model.ir_version,
        sum(ops.values()),
        len(model.functions),
        size,
        dict(sorted(ops.items())),
    )


def as_json(outcome: Outcome) -> str:
    """One JSON object; refusals carry their boundary."""
    return json.dumps(as_facts(outcome), indent=2, default=text)


def as_facts(held: Outcome | Prospect) -> dict[str, Any]:
    """The same as values that JSON has."""
    found: dict[str, Any] = asdict(held)
    found["changes"] = [change._asdict() for change in held.changes]
    for key in ("obstacles", "refusals", "needs"):
        if key in found:
            rows: tuple[Refusal, ...] = getattr(held, key)
            found[key] = [{**asdict(r), "boundary": r.boundary, "text": str(r)} for r in rows]
    return found


def of_backend(backend: Backend) -> dict[str, Any]:
    """A target as values that JSON has; operators are spelled as in target files."""
    found = {key: getattr(backend, key) for key in ("name", "opset", "ir_version", "ml_opset", "source")}
    missing = sorted(backend.missing("", backend.opset or schemas.latest()))
    return {
        **found,
        "missing": [op for _, op in missing],
        "lacks_types": sorted(set(ELEMENT_TYPES) - backend.types) if backend.types else [],
        "static_shapes": backend.static_shapes,
        "functions": backend.functions,
        "folds_sizes": backend.folds_sizes,
        "limits": [
            {**asdict(limit), "ops": sorted(op for _, op in limit.ops), "types": sorted(limit.types)}
            for limit in backend.limits
        ],
    }


def text(name: str | bytes) -> str:
    """A name in a model: protobuf yields bytes where a file holds what is not UTF-8."""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def show(outcome: Outcome, console: Console | None) -> None:
    """The same for a person: before and after, what changed and how, and what was proved.

    Without a console (the output goes to a file or a pipe) the table is plain lines, and rich is not imported.
    """
    after = outcome.after
    rows = _rows(outcome.before, after or outcome.before)
    _tabulate(rows if after else [row[:2] for row in rows], console)
    for line in _changes(outcome.changes):
        say(line, console)
    if outcome.folded == 0:
        say("nothing to fold", console)
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


def inspection(found: Facts, reach: Mapping[int, Result], console: Console | None) -> None:
    """What a model consists of, and what stands in the way of each opset."""
    rows = [row[:2] for row in _rows(found, found)]
    _tabulate([*rows, *((f"  {op}", str(count)) for op, count in found.ops.items())], console)
    say(f"opsets that can be reached: {_ranges([o for o, r in reach.items() if not r.refusals])}", console)
    first: dict[str, list[int]] = {}
    for opset, result in reach.items():
        for text in dict.fromkeys(f"{r.op}: {r.why}" for r in result.refusals):
            first.setdefault(text, []).append(opset)
    for text, opsets_blocked in first.items():
        say(f"not at {_ranges(opsets_blocked)}: {text}", console)


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


def _closing(outcome: Outcome) -> list[str]:
    spent = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in outcome.seconds.items())
    if outcome.after is None:
        return [f"time: {spent}"]
    lines = [f"grade: {outcome.grade}; time: {spent}"]
    lines.append(verdict(outcome.verification) if outcome.verification is not None else "not verified")
    if outcome.output:
        lines.append(f"written to {outcome.output}")
    elif outcome.verification is not None:
        lines.append("nothing was written")
    if outcome.verification is not None and outcome.verification.status == "unverified":
        lines.append("--no-verify writes a model that nobody has run")
    return lines


def verdict(found: Verification) -> str:
    """One sentence on a verification."""
    if found.status == "unverified":
        return f"could not be verified: {found.why}"
    judged = f"{found.engine}, {found.runs} runs"
    if found.equal:
        worst = f"worst absolute error {found.absolute:.3g}, relative {found.relative:.3g}"
        drawn = f"; drawn at random, compared by type and shape alone: {', '.join(found.drawn)}" if found.drawn else ""
        return f"equal ({judged}; {worst}{drawn})"
    place = f' first at tensor "{found.tensor}"' if found.tensor else ""
    return f"DIFFERENT{place} ({judged}): {found.why}"


def _bytes(size: int) -> str:
    from rich.filesize import decimal

    return decimal(size)

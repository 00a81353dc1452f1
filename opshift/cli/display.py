"""Print results for people: as tables on a terminal, as plain lines in a file or a pipe."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TextIO

from opshift.cli import idle
from opshift.cli.printing import join_names, printable
from opshift.jobs import outcome as outcome_
from opshift.jobs.exit_codes import NAMES
from opshift.jobs.outcome import (
    FileFacts,
    Knowledge,
    Outcome,
    Prospect,
    find_blamed,
    list_measurements,
    several,
    stage_lines,
    verdict,
)
from opshift.passes.changes import RETYPED, Change, Result
from opshift.passes.errors import Refusal, describe_numbers, group_refusals
from opshift.passes.model import schemas

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from opshift.jobs.batch import FileResult
    from opshift.jobs.contents import Contents
    from opshift.jobs.fates import Fates
    from opshift.jobs.readers import Readers
    from opshift.jobs.sharing import Shared
    from opshift.jobs.yielding import TakenBack
    from opshift.passes.backends.door import Backend
    from opshift.passes.types.door import Convertible


_SHOWN = 12  # inputs or outputs
_LINES = 5  # of changes
_OPERATORS = 4  # in a line of changes
_MINOR = {"Constant", "Identity", "input"}  # changes that tell nothing of a target
_PREFIXES = "kMGTP"


def show(outcome: Outcome, console: Console | None, *, verbose: bool = False, stages: bool = False) -> None:
    """Print the outcome of a conversion: sizes before and after, at most five lines of changes, and the proof.

    `verbose` prints a table of operators, every change and every refusal; `stages` prints each stage with its time.
    """
    if outcome.unloaded:
        say(outcome.unloaded, console)
    after = outcome.after
    if verbose:
        rows = _rows(outcome.before, after or outcome.before)
        _tabulate(rows if after else [row[:2] for row in rows], console)
    elif after:
        say(_headline(outcome.before, after), console)
    for line in stage_lines(outcome.stages) if stages else ():
        say(line, console)
    if verbose or not outcome.refusals:
        for line in _changes(outcome.changes) if verbose else _main_changes(outcome.changes):
            say(line, console)
    stays = _describe_refusals(outcome.stays, verbose=verbose, said="not quantized")
    stays += _describe_refusals(outcome.control_flow, verbose=verbose, said="stays")
    unread = _describe_refusals(outcome.unread, verbose=verbose, said="not supported")
    types = _types(outcome, verbose=verbose) if outcome.types is not None or outcome.deviations else []
    for line in [*idle.describe_idle(outcome), *types, *stays, *unread, *_describe_taken_back(outcome.taken_back)]:
        say(line, console)
    for line in _describe_refusals(outcome.refusals, verbose=verbose):
        say(line, console, style="red")
    for line in _closing(outcome, verbose=verbose):
        say(line, console)


def _types(outcome: Outcome, *, verbose: bool) -> list[str]:
    from opshift.cli import narrowing

    return narrowing.list_types(outcome, verbose=verbose)


def say(line: str, console: Console | None = None, style: str | None = None) -> None:
    """Print one line without buffering."""
    line = printable(line)
    if console is None:
        print(line, flush=True)
    else:
        console.print(line, style=style, highlight=False, markup=False)


def _tabulate(rows: Sequence[Sequence[str]], console: Console | None) -> None:
    """Print rows of a label and one or two values; values that differ are bold."""
    if console is None:
        for label, *values in rows:
            say(f"{label}: {' -> '.join(dict.fromkeys(values))}")
        return
    from rich.text import Text

    table = _table("", *("before", "after")[: len(rows[0]) - 1], shown=len(rows[0]) > 2)
    for row in rows:  # as texts: names and shapes may hold what would be markup
        table.add_row(*(Text(printable(cell)) for cell in row), style="bold" if len(set(row[1:])) > 1 else None)
    console.print(table)


def show_inspection(
    found: FileFacts,
    held: Contents,
    of: Fates,
    reach: Mapping[int, Result],
    read: Readers | None,
    console: Console | None,
    *,
    verbose: bool = False,
) -> None:
    """Print the contents of a model, and why opsets cannot be reached: for each range of opsets, its nearest one."""
    _tabulate(_describe_model(found, held, of, read, verbose=verbose), console)
    if not reach:
        say("opsets that work: --reach tries all of them, --opset N one", console)
        return
    blocked = [opset for opset, result in reach.items() if result.refusals]
    say(f"opsets that work: {_ranges([opset for opset in reach if opset not in blocked])}", console)
    own = found.opsets.get("", 0)
    for run in _runs(blocked):
        nearest = run[-1] if run[-1] < own else run[0]
        for line in _describe_refusals(reach[nearest].refusals, verbose=verbose, said=f"not at {_ranges(run)}"):
            say(line, console)


def _describe_model(
    found: FileFacts, held: Contents, of: Fates, read: Readers | None, *, verbose: bool
) -> list[tuple[str, str]]:
    """List the rows of `inspect`; the first screen has what most people ask."""
    rows = [("written by", held.producer)] if held.producer else []
    rows += [row[:2] for row in _rows(found, found)]
    rows += [] if held.in_order else [("order of nodes", "some read what later ones compute, which ONNX forbids")]
    missing = [location for location, size in held.files.items() if size is None]
    if there := len(held.files) - len(missing):
        rows.append((f"with data in {several(there, 'file')}", _bytes(held.size)))
    rows += [("missing data files", join_names(missing))] if missing else []
    for label, values in (("input", held.inputs), ("output", held.outputs)):
        shown = list(values.items())[: None if verbose else _SHOWN]
        rows += [(f"{label} {name}", kind) for name, kind in shown]
        rows += [(f"{label}s", f"and {len(values) - len(shown)} more")] if len(shown) < len(values) else []
    rows += [
        (f"{kind} weights", f"{several(one.tensors, 'tensor')}, {_bytes(one.bytes)}")
        for kind, one in held.weights.items()
    ]
    rows.append(("nodes by type", ", ".join(f"{kind} {count}" for kind, count in held.types.items())))
    rows += _narrower("int64", "int32", "int64=int32", held.int64, verbose=verbose)
    rows += _narrower("float", "float16", "float16", held.float16, verbose=verbose)
    for name, trees in held.trees.items():
        depth = "of unknown depth" if trees.depth is None else f"at most {several(trees.depth, 'comparison')} deep"
        leaves, features = f"{trees.leaves} leaves", several(trees.features, "feature")
        rows.append((f"trees of {name}", f"{trees.trees}, {depth}, {leaves}, {features}"))
    rows += _readers(held, read, verbose=verbose)
    domains: dict[str, list[str]] = {}
    for name in found.ops:
        domains.setdefault(name.rpartition("::")[0], []).append(name)
    for domain, names in domains.items():
        rows.append((f"operators of {domain or 'ai.onnx'}", str(sum(map(found.ops.__getitem__, names)))))
        for name in names:
            count, fate = str(found.ops[name]), of.get(name)
            rows.append((f"  {name.rpartition('::')[2]}", f"{count}, {fate}" if fate is not None else count))
    return rows


def _narrower(kind: str, other: str, option: str, of: Convertible | None, *, verbose: bool) -> list[tuple[str, str]]:
    """List the rows of `inspect` about a type that may become narrower."""
    if of is None:
        return []
    rows = [(kind, f"{several(of.nodes, 'node')}; {of.narrow} could have {other} (--types {option})")]
    reasons = list(of.stays.items())[: None if verbose else _SHOWN]
    return rows + [(f"{kind} stays", f"{count}: {why}") for why, count in reasons]


def _readers(held: Contents, read: Readers | None, *, verbose: bool) -> list[tuple[str, str]]:
    """List the rows of `inspect` about targets that support the model."""
    from opshift.jobs.readers import count_runtimes

    rows = []
    most = len(held.rare) if verbose else _FEW
    if held.rare:
        names = [f"{op} ({count} of {count_runtimes()} lack it)" for op, count in held.rare.items()]
        rows.append(("few runtimes have", join_names(names, most)))
    if read is None:
        return [*rows, ("read by", "--reach looks it up")]
    names = [f"{versions[0]} and newer" if len(versions) > 1 else versions[0] for versions in read.reads.values()]
    rows.append(("read by", ", ".join(names) or "no known target"))
    blocked = sorted(read.blocked.items(), key=lambda item: item[1])
    names = [f"{name} ({several(count, 'call')})" for name, count in blocked]
    if names:
        rows.append(("not read by", join_names(names, len(names) if verbose else _FEW)))
    return rows


_FEW = 6  # operators or targets in a line


def show_prospect(found: FileFacts, held: Prospect, console: Console | None, *, verbose: bool = False) -> None:
    """Print what one target lacks in a model, and what opshift would rewrite or refuse for it."""
    _tabulate([*(row[:2] for row in _rows(found, found)), ("target", held.target)], console)
    for line in _describe_known(held.known):
        say(line, console)
    for kind, other in held.casts.items():
        say(f"{held.target} keeps {kind} in {other}; --types target makes that explicit", console)
    for line in _describe_refusals(held.obstacles, verbose=verbose, said="not supported"):
        say(line, console)
    if not held.refusals:
        for line in _changes(held.changes):
            say(f"would be rewritten: {line}", console)
    for line in _describe_refusals(held.refusals, verbose=verbose, said="would be refused"):
        say(line, console, style="red")
    for line in _describe_refusals(held.needs, verbose=verbose, said="left to you"):
        say(line, console)
    tries = f"; try {', or '.join(held.tries)}" if held.tries else ""
    if held.opset:
        say(f"it {'cannot' if held.refusals else 'can'} be converted to {held.target}{tries}", console)
    elif held.refusals:
        say(
            f"{held.target} does not support this model, and opshift cannot rewrite it for {held.target}{tries}",
            console,
        )
    elif held.unread:
        say(f"opshift cannot replace {_describe_first(held.unread)}; {_suggest_test(held.target)}", console)
    elif held.needs:
        say(f"{held.target} reads this model once inputs are fixed; try {describe_numbers(held.needs)}", console)
    elif held.obstacles:
        say(f"`opshift inline --target {held.target}` makes it a model that {held.target} reads", console)
    else:
        say(_describe_readable(held), console)


def show_prospects(found: FileFacts, prospects: Sequence[Prospect], console: Console | None) -> None:
    """Print one line for each target: whether it reads the model, or after which command."""
    from opshift.passes.backends.door import UNKNOWN

    _tabulate([row[:2] for row in _rows(found, found)], console)
    for held in prospects:
        fix = [f"try {describe_numbers(held.needs)}"] if held.needs else []
        if held.refusals:
            left = [f"not read: {_describe_first(held.refusals)}", *fix]
        elif held.unread:
            left = [f"not read, as far as it was measured: {_describe_first(held.unread)}", *fix]
        elif held.needs:
            left = ["read once inputs are fixed", *fix]
        elif held.obstacles:
            ops = _name_rewritten(held)
            left = [f"read after `opshift convert --target {held.target}`{f', which rewrites {ops}' if ops else ''}"]
        else:
            unknown = Counter[str]()
            for row in held.known:
                if row.word == UNKNOWN:
                    unknown[row.why] += row.count
            left = ["read as it is"]
            if unknown:
                nodes = several(sum(row.count for row in held.known), "node")
                most = "mostly: " if len(unknown) > 1 else ""
                why = f"{most}{unknown.most_common(1)[0][0]}"
                left = [f"perhaps read as it is: {unknown.total()} of {nodes} unknown ({why})"]
        say(f"{held.target}: {'; '.join(left)}", console, style="red" if held.refusals else None)


def _name_rewritten(held: Prospect) -> str:
    """Name the operators that a conversion rewrites: those that the target does not read first, four at most."""
    counts = Counter(change.op for change in held.changes if change.op and change.op not in _MINOR)
    refused = {refusal.op for refusal in held.obstacles}
    ops = sorted(counts, key=lambda op: (op not in refused, op))
    others = f" and {several(len(ops) - _OPERATORS, 'other operator')}" if len(ops) > _OPERATORS else ""
    return ", ".join(f"{counts[op]} x {op}" for op in ops[:_OPERATORS]) + others


def _describe_first(refusals: Sequence[Refusal]) -> str:
    """Write the first refusal, and how many other operators were refused."""
    others, what = {refusal.op for refusal in refusals} - {refusals[0].op}, "other operator"
    return f"{refusals[0]}{f', and {several(len(others), what)}' if others else ''}"


def _describe_known(held: Sequence[Knowledge]) -> list[str]:
    """Write a line each of calls that were measured, documented or unknown; the last with reasons."""
    from opshift.passes.backends.door import BELIEVED, READ, UNKNOWN

    lines = []
    for word, said in ((READ, "read (measured)"), (BELIEVED, "believed (documented)"), (UNKNOWN, "unknown")):
        rows = [row for row in held if row.word == word]
        ops = [f"{row.count} x {row.operator}{f' ({row.why})' if row.why else ''}" for row in rows]
        lines += [f"{said}: {', '.join(ops)}"] if rows else []
    return lines


def _describe_readable(held: Prospect) -> str:
    """Write the verdict on a model for which the target has no known obstacle."""
    from opshift.passes.backends.door import BELIEVED, UNKNOWN

    unknown = sum(row.count for row in held.known if row.word == UNKNOWN)
    if unknown:
        calls = several(unknown, "call")
        return f"whether {held.target} reads {calls} of this model is unknown; {_suggest_test(held.target)}"
    if any(row.word == BELIEVED for row in held.known):
        return f"{held.target} runs this model as it is, according to its documentation"
    return f"{held.target} runs this model as it is"


def _suggest_test(target: str) -> str:
    from opshift.verification.adapters import KNOWN

    stem = target.rpartition("-")[0]
    return f"`opshift inline --target {target} --try` tests it" if stem in KNOWN else "test it there"


def print_shared(done: Shared) -> None:
    """Print the outcome of `strip` and `fill`."""
    sizes = f"{_bytes(done.before)} -> {_bytes(done.after)}"
    if done.compressed:
        say(f"removed {several(done.tensors, 'tensor')}, {_bytes(done.bytes)}")
        if done.shortened:
            say(f"shortened {several(done.shortened, 'name')} of values and nodes; .onnx.gz keeps them")
        say(f"size: {sizes}, {_bytes(done.compressed)} compressed")
    else:
        say(f"filled {several(done.tensors, 'tensor')}, {_bytes(done.bytes)}")
        say(f"size: {sizes}")
    say(f"written to {done.output}")


def show_targets(backends: Sequence[Backend], console: Console | None) -> None:
    """Print one line for each target; a dash stands for what its source does not say."""
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
    table = _table("target", "opset", "IR", "lacks", "source")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def open_console(stream: TextIO) -> Console | None:
    """Make a console for a terminal; None for a file or a pipe, or without rich: lines are plain then."""
    if not stream.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(file=stream, emoji=False)
    return None if console.is_dumb_terminal else console


def _table(*headers: str, shown: bool = True) -> Table:
    """Make a table that wraps long cells instead of cutting them off."""
    from rich.table import Column, Table

    return Table(*(Column(header, overflow="fold") for header in headers), show_header=shown)


def _ranges(numbers: Sequence[int]) -> str:
    """Write ascending numbers as `7-12, 15`."""
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in _runs(numbers)) or "none"


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """Split ascending numbers into runs without a gap."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _rows(before: FileFacts, after: FileFacts) -> list[tuple[str, str, str]]:
    rows = [
        (
            f"opset {domain or 'ai.onnx'}",
            str(before.opsets.get(domain, "none")),
            str(after.opsets.get(domain, "none")),
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


def _headline(before: FileFacts, after: FileFacts) -> str:
    """Write the table without its operators as one line: `opset 18 -> 13, IR version 10 -> 7, nodes 14 -> 15`."""
    rows = [(label.removesuffix(" ai.onnx"), *values) for label, *values in _rows(before, after) if label[0] != " "]
    always = ("opset", "nodes", "size")
    shown = [(label, values) for label, *values in rows if label in always or len(set(values)) > 1]
    return ", ".join(f"{label} {' -> '.join(dict.fromkeys(values))}" for label, values in shown)


def _changes(changes: Sequence[Change]) -> list[str]:
    """Write one line for each operator, version and text; `narrowing.py` reports changes of element types."""
    told = [change for change in changes if change.how != RETYPED]
    counted = Counter(map(itemgetter(1, 3, 4, 5, 6, 7), told))  # all but the node and the domain
    lines = []
    for (op, source, target, how, grade, remark), count in sorted(counted.items()):
        note = f" ({remark})" if remark else ""
        rung = Change("", op, "", source, target, how).rung
        lines.append(f"{count} x {f'{op} {rung}'.strip()}, {grade}: {how}{note}")
    return lines


def _main_changes(changes: Sequence[Change]) -> list[str]:
    """Write at most five lines, the most frequent changes first. Operators with the same change share a line."""
    groups: dict[tuple[str, str, str], list[Change]] = {}
    for change in changes:
        if change.how == RETYPED:
            continue  # reported by `narrowing.py`
        rung = "" if change.source == change.target else change.rung
        groups.setdefault((change.how, rung, change.grade), []).append(change)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    lines = []
    for (how, rung, grade), alike in ordered[:_LINES]:
        ops = [f"{count} x {op}" for op, count in Counter(change.op for change in alike).most_common()]
        remarks = list(dict.fromkeys(change.remark for change in alike if change.remark))
        note = f" ({remarks[0]}{f', and {len(remarks) - 1} more' if len(remarks) > 1 else ''})" if remarks else ""
        named = join_names(ops, _OPERATORS)
        lines.append(f"{f'{named} {rung}'.strip()}, {grade}: {how}{note}")
    if more := sum(len(alike) for _, alike in ordered[_LINES:]):
        lines.append(f"and {several(more, 'more change')} (-v lists all)")
    return lines


def _describe_taken_back(found: Sequence[TakenBack]) -> list[str]:
    """Write one line for each operator and text, with the first node and what the proof found there."""
    groups: dict[tuple[str, str], list[TakenBack]] = {}
    for back in found:
        groups.setdefault((back.change.op, back.change.how), []).append(back)
    return [
        f'taken back: {len(alike)} x {op}: {how} (first at "{alike[0].change.node}"; with it, {alike[0].why})'
        for (op, how), alike in groups.items()
    ]


def _closing(outcome: Outcome, *, verbose: bool) -> list[str]:
    each = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in outcome.seconds.items())
    spent = each if verbose else f"{sum(outcome.seconds.values()):.2f} s"
    if outcome.after is None:
        return [f"time: {spent}", _describe_miss(outcome)]
    lines = [f"grade: {outcome.grade}; time: {spent}"]
    if outcome.tried is not None:
        from opshift.cli import trying

        lines += trying.describe_trial(outcome.tried)
        if not outcome.tried.agrees:
            return [*lines, trying.ending(outcome.tried)]
    said = verdict(outcome.verification) if outcome.verification is not None else "not verified"
    back = outcome.types is not None and outcome.grade == "narrowed" and outcome.verification is not None
    lines.append(f"with the original types: {said}" if back and outcome.verification.equal else said)  # type: ignore[union-attr]
    if outcome.verification is not None:
        lines += list_measurements(outcome.verification)
    lines += [f"changed there: {line}" for line in _changes(find_blamed(outcome))]
    return [*lines, _ending(outcome)]


def _ending(outcome: Outcome) -> str:
    """Write the last line: where the model was written, or why not and what to try."""
    found = outcome.verification
    if outcome.output:
        return f"written to {outcome.output}{f'; not tried in {outcome.untried}' if outcome.untried else ''}"
    if found is None:
        return "not written: --dry-run"
    if found.status == "unverified":
        return outcome_.explain_unproved(found)
    try_ = "" if found.repro else "; --repro DIR writes the smallest models that differ"
    return f"not written: the outputs differ{try_}"


def _describe_refusals(refusals: Sequence[Refusal], *, verbose: bool, said: str = "refused") -> list[str]:
    if verbose:
        return [f"{said}: {refusal}" for refusal in refusals]
    lines = group_refusals(refusals)
    is_cut = any(re.search(r"\band \d+ more\b", line) for line in lines)
    return [f"{said}: {line}" for line in lines] + [f"-v lists all {len(refusals)}"] * is_cut


def _describe_miss(outcome: Outcome) -> str:
    """Write the last line of a refused conversion: the operators at fault, and what to try."""
    from opshift.passes.inputs.sizes import CANNOT_CHANGE  # only refusals need it

    ops = list(dict.fromkeys(each.operator for each in outcome.refusals))
    if ops and all(each.why.startswith(CANNOT_CHANGE) for each in outcome.refusals):
        return f"not written: {join_names(ops)} mixes the samples of a batch"
    if ops == ["types"]:
        return "not written: the types cannot be changed as asked"
    own = outcome.before.opsets.get("")
    if needs := [each for each in outcome.refusals if each.op == "input"]:
        lacking = f": cannot express {join_names([op for op in ops if op != 'input'])}" if ops != ["input"] else ""
        return f"not written{lacking} {outcome.target}; try {describe_numbers(needs)}"
    told = f"not written: cannot express {join_names(ops)} {outcome.target}".rstrip()
    if outcome.nearest is not None and outcome.nearest == own:
        told += f", nor at any opset between that and {own}"
    return f"{told}; try {', or '.join(outcome.tries)}" if outcome.tries else told


def _bytes(size: int) -> str:
    """Write a number of bytes as `34.2 kB`."""
    if size < 1000:
        return several(size, "byte")
    power = min((len(str(size)) - 1) // 3, len(_PREFIXES))
    return f"{size / 1000**power:,.1f} {_PREFIXES[power - 1]}B"


def describe_result(result: FileResult) -> str:
    """Write the result of one of many models as one line."""
    place = f"{result.source} -> {result.output}" if result.output else result.source
    return f"{NAMES[result.code]}: {place}: {_describe_proof(result)}"


def _describe_proof(result: FileResult) -> str:
    outcome = result.outcome
    if result.why or outcome is None:
        return result.why
    proved = verdict(outcome.verification) if outcome.verification is not None else "not verified"
    done = [f"{several(len(outcome.changes), 'change')}, {outcome.grade}"]
    if outcome.tried is not None:
        done.append(f"runs in {outcome.tried.backend}")
    if outcome.absent and outcome.after is not None and outcome.before.ops == outcome.after.ops:
        done.append("nothing to inline")
    if outcome.taken_back:
        done.append(f"{len(outcome.taken_back)} taken back")
    elif outcome.folded == 0:
        done.append("nothing to fold")
    return "; ".join([*done, proved])


def summarize(results: Sequence[FileResult], console: Console | None) -> None:
    """Print how many models were done, refused and so on; on a terminal also a table of all models."""
    if console is not None:
        from rich.text import Text

        table = _table("model", "", "opset", "what was done")
        for result in results:
            cells = (result.source, NAMES[result.code], _opsets(result.outcome), _describe_proof(result))
            table.add_row(*(Text(printable(cell)) for cell in cells), style="red" if result.code else None)
        console.print(table)
    counted = Counter(result.code for result in results)
    told = ", ".join(f"{counted[code]} {word}" for code, word in NAMES.items() if counted[code])
    say(f"{several(len(results), 'model')}: {told}", console)


def _opsets(outcome: Outcome | None) -> str:
    """Write the opset of the default domain before and after."""
    held = [] if outcome is None else [facts.opsets.get("") for facts in (outcome.before, outcome.after) if facts]
    return " -> ".join(dict.fromkeys(map(str, filter(None, held))))

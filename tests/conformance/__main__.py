"""`python -m tests.lab conformance [--op NAME] [--family NAME] [--sample N] [--json PATH]`: every case to every opset.

With `--inline` every case stays at its opset, and each of its operators that has a definition is expanded.
With `--carry` only those go on whose inputs or outputs are of a type that older opsets lack, carried in a wider one.
With `--refine` every case is folded and optimized: at its opset as it is, with its inputs as constants, and with each
operator expanded; and at opset 23 and the newest.
With `--sweep zero` and `--sweep runtime`, cases that are derived from those of the installed release (`sweeps.py`) are taken
to both sides of every boundary of their operator.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from opshift.passes.goals import Refinement
from opshift.passes.model import schemas
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.conformance import sweeps
from tests.conformance.carried import as_carried
from tests.conformance.cases import Case, all_cases, expandable, held, installed, with_bound
from tests.conformance.judge import CRASHED, INVALID, REFUSED, UNJUDGED, WRONG, Verdict, judge
from tests.conformance.report import STATUSES, counts, general, share
from tests.conformance.sweep.bases import Base, bases
from tests.conformance.sweep.changes import SWEEPS


def main() -> int:
    """Run, print the counts, write JSON; exit 1 if anything is wrong, invalid or crashed."""
    options = _options()
    published = with_bound(installed()) if options.sweep else all_cases(options.release)
    cases = [case for case in published if _chosen(case, options)]
    if options.carry:
        cases = [carried for case in cases if (carried := as_carried(case)) is not None]
    if options.sample:
        cases = random.Random(options.seed).sample(cases, min(options.sample, len(cases)))
    swept = _by_operator(cases, options) if options.sweep else []
    console = Console(width=None if sys.stdout.isatty() else 140)
    goal = f"to opsets {options.low}..{options.high}"
    goal = "with each operator expanded" if options.inline else "refined" if options.refine else goal
    goal = f"swept ({options.sweep})" if options.sweep else goal
    console.print(f"{sum(map(len, swept)) or len(cases)} cases {goal}")
    targets = range(options.low, options.high + 1)
    verdicts: list[Verdict] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        if options.sweep:
            work = pool.map(sweeps.verdicts, swept, [options.sweep] * len(swept))
        elif options.refine:
            work = pool.map(_each_refined, cases, chunksize=4)
        elif options.inline:
            work = pool.map(_each_expanded, cases, chunksize=4)
        else:
            work = pool.map(_all_targets, [(case, tuple(targets)) for case in cases], chunksize=4)
        for found in track(work, total=len(swept or cases), console=console, disable=not console.is_terminal):
            verdicts += found
    console.print(_table(verdicts))
    for status in (WRONG, INVALID, CRASHED, UNJUDGED, REFUSED):
        _explain(console, verdicts, status, options.most)
    if options.json:
        Path(options.json).write_text(json.dumps([vars(v) for v in verdicts], indent=0), encoding="utf-8")
    return int(any(v.status in (WRONG, INVALID, CRASHED) for v in verdicts))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab conformance")
    parser.add_argument("--op", action="append", help="only cases with this operator")
    parser.add_argument("--family", help="only cases with an operator of this folder of onnx/defs")
    parser.add_argument("--name", help="only cases whose name matches this pattern")
    parser.add_argument("--release", action="append", help="only these older onnx releases, beside the installed one")
    parser.add_argument("--sample", type=int, help="only so many cases, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--low", type=int, default=7)
    parser.add_argument("--high", type=int, default=schemas.latest())
    parser.add_argument("--inline", action="store_true", help="expand each operator, at the opset of the case")
    parser.add_argument(
        "--refine", action="store_true", help="fold and optimize, at the opset of the case and at others"
    )
    parser.add_argument("--carry", action="store_true", help="carry types that older opsets lack in wider ones")
    parser.add_argument("--sweep", choices=sorted(SWEEPS), help="cases derived from those of the installed release")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=int, default=20, help="how many reasons to print for each status")
    parser.add_argument("--json", help="write every verdict to this file")
    return parser.parse_args()


def _chosen(case: Case, options: argparse.Namespace) -> bool:
    if options.op and not case.ops & set(options.op):
        return False
    if options.name and not re.search(options.name, case.name):
        return False
    return not options.family or any(_family(op) == options.family for op in case.ops)


def _by_operator(cases: list[Case], options: argparse.Namespace) -> list[list[Base]]:
    """What is swept of each operator, the longest work first."""
    found: dict[str, list[Base]] = defaultdict(list)
    for base in bases(cases):
        if _chosen(base.case, options):
            found[min(base.case.ops)].append(base)
    return sorted(found.values(), key=len, reverse=True)


def _family(op: str) -> str | None:
    for domain in ("", "ai.onnx.ml"):
        found = schemas.schema(domain, op, schemas.latest(domain))
        if found is not None:
            return found.family
    return None


def _all_targets(work: tuple[Case, tuple[int, ...]]) -> list[Verdict]:
    case, targets = work
    return [judge(case, target) for target in targets]


def _each_expanded(case: Case) -> list[Verdict]:
    return [judge(case, case.opset, [("", op)]) for op in sorted(case.ops & expandable())]


def _each_refined(case: Case) -> list[Verdict]:
    wanted, constant = Refinement(fold=True, optimize=True), held(case)
    found = [judge(case, target, (), wanted) for target in sorted({case.opset, 23, schemas.latest()})]
    if constant is not None:
        found.append(judge(constant, case.opset, (), wanted))
    return [*found, *(judge(case, case.opset, [("", op)], wanted) for op in sorted(case.ops & expandable()))]


def _table(verdicts: list[Verdict]) -> Table:
    table = Table("", *STATUSES, "total", "ok %")
    for direction, count in counts(verdicts).items():
        table.add_row(direction, *(str(count[s]) for s in STATUSES), str(sum(count.values())), share(count))
    return table


def _explain(console: Console, verdicts: list[Verdict], status: str, most: int) -> None:
    found = Counter(
        f"{v.direction} {v.case} ({v.release}) {v.source}->{v.target}: {v.why}" if status != REFUSED else general(v.why)
        for v in verdicts
        if v.status == status
    )
    if found:
        console.print(f"{status}:", style="bold")
    for reason, count in found.most_common(most):
        console.print(f"  {count:5d}  {reason}", markup=False, highlight=False, soft_wrap=True)
    if len(found) > most:
        console.print(f"  ... and {len(found) - most} more kinds")


if __name__ == "__main__":
    raise SystemExit(main())

"""`python -m tests.lab proof VERB`: run one corpus, and print a table of what was told and missed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.lab.proof import hangs, honest, mutants, pairs, planted, taps, times
from tests.lab.proof.running import Row, judge_all

Case = Callable[[], Row | list[Row]]

CORPORA: dict[str, tuple[Callable[[argparse.Namespace], Iterator[Case]], str]] = {
    "small": (pairs.small, "small pairs that differ at one place: each must be told different"),
    "same": (pairs.same, "small pairs that compute the same: each must be told equal"),
    "mutants": (
        mutants.cases,
        "small models with another weight, operator or attribute that moves outputs by 5 %: all must be told",
    ),
    "planted": (
        planted.cases,
        "results of conversions with one mistake: 95 of 100 must be told, and no honest one different",
    ),
    "hangs": (hangs.cases, "models on which a proof may not end, or leave processes behind"),
    "honest": (honest.cases, "conversions that are right: none may be told different"),
    "taps": (taps.cases, "trained image models with one tap of a kernel negated: 95 of 100 must be told different"),
    "times": (times.cases, "seconds of conversions with their proof, beside running both models once"),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab proof")
    verbs = parser.add_subparsers(dest="corpus", required=True)
    for name, (_, what) in CORPORA.items():
        verb = verbs.add_parser(name, help=what.replace("%", "%%"), description=what.replace("%", "%%"))
        verb.add_argument("--jobs", type=int, default=1, help="how many cases at once (default: 1)")
        verb.add_argument("--json", type=Path, help="also write the rows to this file")
        verb.add_argument("--only", default="", help="only cases whose name has this text in it")
        verb.add_argument("--limit", type=float, default=60, help="seconds for a case (default: 60)")
        verb.add_argument(
            "--count", type=int, default=100, help="how many cases, where a seed draws them (default: 100)"
        )
        verb.add_argument("--seed", type=int, default=0)
        verb.add_argument(
            "--models", type=Path, default=os.environ.get("OPSHIFT_MODELS"), help="where trained models lie"
        )
        verb.add_argument(
            "--kind", default="", help="only one part of `honest`: signals, quantized, fused, fixed, exported, trained"
        )
        verb.add_argument("--largest", type=float, default=50, help="the largest trained file, in MB (default: 50)")
        verb.add_argument("--plain", action="store_true", help="`opshift verify` without --close")
        verb.add_argument("--quiet", action="store_true", help="print no row that is right")
    options = parser.parse_args(arguments)
    started = time.perf_counter()

    def tell(row: Row) -> None:
        if not options.quiet or not row.right:
            mark = "ok    " if row.right else "WRONG "
            print(f"{mark}{row.answer.status:12}{row.answer.seconds:6.1f} s  {row.name}  {row.remark}", flush=True)

    rows = judge_all(CORPORA[options.corpus][0](options), options.jobs, tell)
    _print_summary(options.corpus, rows, time.perf_counter() - started)
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1), encoding="utf-8")
    return 0 if all(row.right for row in rows) else 1


def _print_summary(corpus: str, rows: list[Row], seconds: float) -> None:
    print(f"\n{corpus}: {len(rows)} cases in {seconds:.0f} s")
    for kind in dict.fromkeys(row.corpus for row in rows):
        of_kind = [row for row in rows if row.corpus == kind]
        counts = Counter(row.answer.status for row in of_kind)
        times = [row.answer.seconds for row in of_kind]
        print(
            f"  {kind}: {sum(row.right for row in of_kind)} of {len(of_kind)} right {dict(counts)}; "
            f"seconds a case: median {statistics.median(times):.1f}, longest {max(times):.1f}"
        )
    for row in rows:
        if not row.right:
            print(f"  missed: {row.name}: {row.answer.status}  {row.remark}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m tests.random [--seconds N] [--seed N] [--out FOLDER] [--op NAME] [--kind KIND]`: random models through every verb."""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from pathlib import Path

from rich.console import Console

from tests.random.calls import published
from tests.random.coverage import Coverage
from tests.random.engines import Engines
from tests.random.models import drawn_source
from tests.random.report import table
from tests.random.shrink import Finding, shrunk
from tests.random.verbs import drawn_verbs
from tests.random.verdict import FINDINGS, Judge


def main() -> int:
    """Judge for as long as asked; print the counts, write what went wrong, exit 1 if anything did."""
    options = _options()
    console = Console(width=160, soft_wrap=True, highlight=False, markup=False)
    corpus = published()
    if options.op:
        corpus.known = [key for key in corpus.known if key[1] in options.op]
    counts: Counter[tuple[str, str, str]] = Counter()
    coverage, seen = Coverage(), Counter[tuple[str, ...]]()
    raw: Counter[tuple[str, ...]] = Counter()
    end, seed, started, judged = time.monotonic() + options.seconds, options.seed, time.monotonic(), 0
    with Engines() as engines:
        while time.monotonic() < end:
            seed += 1
            source = drawn_source(seed, engines, corpus)
            judge = Judge(engines, source) if source is not None else None
            if source is None or judge is None or not judge.sound:
                counts["-", "-", "not drawn"] += 1
                continue
            for verb in drawn_verbs(random.Random(seed), source.model, options.verbs):
                if options.kind and options.kind not in verb.kind:
                    continue
                verdict = judge.judge(verb)
                judged += 1
                counts[source.place, verb.kind, verdict.status] += 1
                coverage.add(source.model, verdict.status)
                if verdict.status in FINDINGS:
                    finding = Finding(source, verb, verdict)
                    raw[finding.raw] += 1
                    if raw[finding.raw] > 2:
                        continue
                    finding = shrunk(finding, engines)
                    if not seen[finding.key]:
                        console.print(finding.headline)
                        finding.write(Path(options.out), len(seen))
                    seen[finding.key] += 1
    spent = time.monotonic() - started
    console.print(f"{judged} judged in {spent:.0f} s, {judged / spent:.0f} a second; the last seed was {seed}")
    console.print(table(counts))
    console.print(coverage.text(corpus))
    if options.json:
        rows = [[*key, count] for key, count in sorted(counts.items())]
        Path(options.json).write_text(json.dumps({"counts": rows, "judged": judged}, indent=0), encoding="utf-8")
    return int(bool(seen))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.random")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="models are drawn from the seeds that follow")
    parser.add_argument("--verbs", type=int, default=6, help="how much is done with each model")
    parser.add_argument("--op", action="append", help="single nodes of these operators only")
    parser.add_argument("--kind", help="only what is called so: up, down, back, inline, fold, optimize, refined")
    parser.add_argument("--out", default="findings", help="the folder for what goes wrong")
    parser.add_argument("--json", help="write the counts to this file")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())

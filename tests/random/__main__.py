"""`python -m tests.lab random [--seconds N] [--seed N] [--out FOLDER] [--op NAME] [--kind KIND] [--jobs N]`: random models through every verb."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from pathlib import Path

from rich.console import Console

from tests.random import openvino
from tests.random.calls import published
from tests.random.coverage import Coverage
from tests.random.report import markdown, table
from tests.random.runner import Row, Wanted, again, run
from tests.random.verdict import DIED, FINDINGS


def main() -> int:
    """Judge for as long as asked; print the counts, write what went wrong, exit 1 if anything did."""
    options = _options()
    console = Console(width=160, soft_wrap=True, highlight=False, markup=False)
    if options.openvino:
        found = openvino.run(options.seconds, options.seed)
        console.print("\n".join(found) or "nothing goes wrong")
        return int(bool(found))
    corpus = published()
    if options.op:
        corpus.known = [key for key in corpus.known if key[1] in options.op]
    counts: Counter[Row] = Counter()
    seen: Counter[tuple[str, ...]] = Counter()
    unjudged: Counter[str] = Counter()
    coverage, started, last, wrong = Coverage(), time.monotonic(), 0, list[int]()
    wanted = Wanted(options.verbs, options.kind, options.jobs, 1 if options.op else 40)
    found = run(corpus, options.seed + 1, options.seconds, wanted)
    for judged in again(corpus, options.seeds, wanted) if options.seeds else found:
        counts.update(judged.rows)
        coverage.update(judged.coverage)
        last = max(last, judged.seed)
        wrong += [judged.seed] if any(status in FINDINGS for _, _, status in judged.rows) else []
        unjudged.update(re.sub(r"-?[\d.]+(e[-+]\d+)?", "N", why)[:140] for why in judged.unjudged)
        if any(status == DIED for _, _, status in judged.rows):
            console.print(f"died     the process that judged seed {judged.seed}: {judged.rows[-1][1]}")
            seen[DIED, str(judged.seed)] += 1
        for finding in judged.findings:
            if not seen[finding.key]:
                console.print(finding.headline)
                finding.write(Path(options.out), len(seen))
            seen[finding.key] += 1
    spent = time.monotonic() - started
    total = sum(count for (_, verb, _), count in counts.items() if verb != "-")
    console.print(f"{total} judged in {spent:.0f} s, {total / spent:.0f} a second; the last seed was {last}")
    console.print(table(counts))
    console.print(f"went wrong: {' '.join(map(str, wrong)) or 'none'}")
    for why, count in unjudged.most_common(options.most):
        console.print(f"unjudged {count:5} {why}")
    console.print(coverage.text(corpus))
    if options.markdown:
        how = f"{total:,} results of {last - options.seed:,} seeds in {spent / 60:.0f} minutes, {total / spent:.0f} a second"
        page = markdown(counts, how, coverage.text(corpus).splitlines(), options.note)
        Path(options.markdown).write_text(page, encoding="utf-8")
    if options.json:
        rows = [[*key, count] for key, count in sorted(counts.items())]
        Path(options.json).write_text(
            json.dumps({"counts": rows, "judged": total, "seconds": spent, "last": last, "wrong": wrong}, indent=0),
            encoding="utf-8",
        )
    return int(bool(seen))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab random")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="models are drawn from the seeds that follow")
    parser.add_argument("--verbs", type=int, default=6, help="how much is done with each model")
    parser.add_argument("--op", action="append", help="single nodes of these operators only")
    parser.add_argument(
        "--kind", default="", help="only what is called so: up, down, back, inline, fold, optimize, refined"
    )
    parser.add_argument("--openvino", action="store_true", help="networks of OpenVINO's own operators instead")
    parser.add_argument("--jobs", type=int, default=1, help="so many processes at once")
    parser.add_argument("--most", type=int, default=20, help="how many reasons to print why nothing was judged")
    parser.add_argument("--out", default="findings", help="the folder for what goes wrong")
    parser.add_argument("--json", help="write the counts to this file")
    parser.add_argument("--markdown", help="write the counts to this file as a page")
    parser.add_argument("--note", default="", help="a sentence below the counts of that page")
    parser.add_argument("--seeds", type=int, nargs="+", help="these alone, whatever the time")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())

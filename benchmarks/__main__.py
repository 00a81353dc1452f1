"""`python -m benchmarks [--nodes N ...] [--runs N] [--limit S]`: conversions, see `benchmarks.conversions`.

`python -m benchmarks inlining` measures definitions put in the place of calls alone, see `benchmarks.inlining`;
`python -m benchmarks weights [--gigabytes N] [--runs N]` measures models that are mostly weights, beside a plain copy.
`python -m benchmarks definitions [--op NAME ...] [--runs N]` compares expansions, see `benchmarks.definitions`;
`python -m benchmarks backends [--backend NAME ...]` counts what backends run, see `benchmarks.backends`.
"""

from __future__ import annotations

import argparse

from rich.console import Console

from benchmarks import conversions, inlining


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    subjects = ["conversions", "inlining", "weights", "definitions", "backends"]
    parser.add_argument("what", nargs="?", choices=subjects, default="conversions")
    parser.add_argument("--op", action="append", default=[], help="only these operators, of the definitions")
    parser.add_argument("--backend", action="append", default=[], help="only these backends")
    parser.add_argument("--markdown", action="store_true", help="the definitions as docs/expansions.md")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--gigabytes", type=int, default=1, help="of embedded weights")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--limit", type=int, default=60, help="seconds of the processor that one conversion may take")
    options = parser.parse_args()
    console = Console(width=120)
    if options.what == "definitions":
        from benchmarks import definitions

        compared = definitions.measure(options.op, options.runs)
        if options.markdown:
            print(definitions.as_markdown(compared), end="")
        else:
            console.print(definitions.as_table(compared))
        return
    if options.what == "backends":
        from benchmarks import backends
        from opshift.report import progress

        with progress() as advance:
            chosen = options.backend or ["openvino", "opencv", "tract"]
            rows = [row for backend in chosen for row in backends.measure(backend, advance)]
        print(backends.document(rows), end="")
        return
    if options.what == "weights":
        from benchmarks import weights

        weights.measure(options.gigabytes, options.runs)
        return
    for part in [inlining] if options.what == "inlining" else [conversions, inlining]:
        print(part.HEAD)
        for rows in conversions.measure(part.SHAPES, options.nodes, options.runs, options.limit):
            for row in rows:
                print(conversions.line(row), flush=True)


if __name__ == "__main__":
    main()

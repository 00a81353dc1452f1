"""`python -m benchmarks [--nodes N ...] [--runs N] [--limit S]`: conversions, see `benchmarks.conversions`.

`python -m benchmarks inlining` measures definitions put in the place of calls alone, see `benchmarks.inlining`;
`python -m benchmarks weights [--gigabytes N] [--runs N]` measures models that are mostly weights, beside a plain copy.
`python -m benchmarks definitions [--op NAME ...] [--runs N]` compares expansions, see `benchmarks.definitions`;
`python -m benchmarks backends [--backend NAME ...]` counts what backends run, see `benchmarks.backends`;
`python -m benchmarks tried [--backend NAME ...] [--models FOLDER]` tries whole models there, see `benchmarks.tried`;
`python -m benchmarks vendors` the same of what onnxruntime saved, see `benchmarks.vendors`;
`python -m benchmarks scaling [--nodes N ...] [--steps]` tells what one more node costs, see `benchmarks.scaling`;
`python -m benchmarks folding [--nodes N ...]` tells what it costs to find operators, see `benchmarks.folding`;
`python -m benchmarks checks [--nodes N ...] [--models FOLDER]` tells what the check of a source costs;
`python -m benchmarks proofs [--name REGEX]` measures what proofs of small models cost;
`python -m benchmarks waits [--models FOLDER] [--beside PYTHON]` measures where people wait, see `benchmarks.waits`;
`python -m benchmarks memory [--layers N]` measures the memory that proofs of large models take;
`python -m benchmarks optimizers [--models FOLDER] [--name REGEX]` compares optimizers, see `benchmarks.optimizers`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from benchmarks import conversions, folding, inlining, scaling


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    subjects = [
        "conversions",
        "inlining",
        "scaling",
        "folding",
        "weights",
        "definitions",
        "backends",
        "tried",
        "vendors",
        "optimizers",
        "checks",
        "memory",
        "proofs",
        "waits",
    ]
    parser.add_argument("what", nargs="?", choices=subjects, default="conversions")
    parser.add_argument("--op", action="append", default=[], help="only these operators, of the definitions")
    parser.add_argument("--backend", action="append", default=[], help="only these backends")
    parser.add_argument("--markdown", action="store_true", help="definitions and optimizers as a page of docs/")
    parser.add_argument(
        "--models",
        type=Path,
        help="optimizers: this folder instead of the committed exports; checks, tried, waits: these models as well",
    )
    parser.add_argument("--beside", default="", help="waits: another Python, whose opshift is measured beside")
    parser.add_argument("--name", default="", help="only the models that this expression finds")
    parser.add_argument("--rows", type=Path, help="tried: keep rows in this file, and do not measure those again")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--steps", action="store_true", help="scaling: every frozen case instead of whole models")
    parser.add_argument("--gigabytes", type=int, default=1, help="of embedded weights")
    parser.add_argument("--layers", type=int, default=18, help="memory: of 67 MB each")
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
        from opshift.cli.display import progress

        with progress() as advance:
            chosen = options.backend or ["openvino", "opencv", "tract"]
            rows = [row for backend in chosen for row in backends.measure(backend, advance)]
        print(backends.document(rows), end="")
        return
    if options.what == "tried":
        from benchmarks import tried

        chosen = options.backend or ["openvino", "opencv", "tract"]
        counted = tried.rows(chosen, options.models, options.name, options.rows)
        print(tried.document(counted, tried.fixing(options.models)), end="")
        return
    if options.what == "vendors":
        from benchmarks import vendors
        from opshift.cli.display import progress

        with progress() as advance:
            models = list(vendors.saved(advance))
            measured = [
                row
                for name in options.backend or list(vendors.BACKENDS)
                for row in vendors.measure(name, models, advance)
            ]
        print(vendors.as_markdown(measured), end="")
        return
    if options.what == "optimizers":
        from benchmarks import optimizers
        from opshift.cli.display import progress

        name, folder = options.name, options.models
        found = list(optimizers.of_folder(folder, name) if folder else optimizers.committed(name))
        with progress() as advance:
            held = list(optimizers.measure(found, options.runs, options.limit, advance))
        if options.markdown:
            print(optimizers.as_markdown(held, options.runs), end="")
        else:
            for table in optimizers.as_table(held):
                console.print(table)
        return
    if options.what == "checks":
        from benchmarks import checks

        print(checks.HEAD)
        for line in checks.measure(options.nodes, options.runs, options.models):
            print(line, flush=True)
        return
    if options.what == "waits":
        from benchmarks import waits

        print(waits.HEAD)
        for line in waits.measure(options.runs, options.beside, options.models):
            print(line, flush=True)
        return
    if options.what == "proofs":
        from benchmarks import proofs

        for line in proofs.measure(options.runs, options.name):
            print(line, flush=True)
        return
    if options.what == "memory":
        from benchmarks import memory

        for line in memory.measure(options.layers):
            print(line, flush=True)
        return
    if options.what == "weights":
        from benchmarks import weights

        weights.measure(options.gigabytes, options.runs)
        return
    if options.steps:
        for row in scaling.steps(options.op):
            print(row, flush=True)
        return
    if options.what not in ("scaling", "folding"):
        for part in [inlining] if options.what == "inlining" else [conversions, inlining]:
            print(part.HEAD)
            for rows in conversions.measure(part.SHAPES, options.nodes, options.runs, options.limit):
                for held in rows:
                    print(conversions.line(held), flush=True)
            print()
    if options.what not in ("inlining", "folding"):
        print(scaling.HEAD)
        for line in scaling.measure(options.nodes, options.runs, options.limit):
            print(line, flush=True)
        print()
    if options.what in ("conversions", "folding"):
        print(folding.HEAD)
        for line in scaling.measure(options.nodes, options.runs, options.limit, folding.SHAPES, folding.COMMAND):
            print(line, flush=True)


if __name__ == "__main__":
    main()

"""`python -m benchmarks [--nodes N ...] [--runs N] [--limit S]`: conversions, see `benchmarks.conversions`.

`python -m benchmarks inlining` measures definitions put in the place of calls alone, see `benchmarks.inlining`;
`python -m benchmarks weights [--gigabytes N] [--runs N]` measures models that are mostly weights, beside a plain copy.
`python -m benchmarks definitions [--op NAME ...] [--runs N]` compares expansions, see `benchmarks.definitions`;
`python -m benchmarks backends [--backend NAME ...]` counts what backends run, see `benchmarks.backends`;
`python -m benchmarks tried [--backend NAME ...] [--models FOLDER]` tries whole models there, see `benchmarks.tried`;
`python -m benchmarks deployed [--backend NAME ...] [--models FOLDER]` in compilers, see `benchmarks.deployed`;
`python -m benchmarks vendors` the same of what onnxruntime saved, see `benchmarks.vendors`;
`python -m benchmarks scaling [--nodes N ...] [--steps]` tells what one more node costs, see `benchmarks.scaling`;
`python -m benchmarks folding [--nodes N ...]` tells what it costs to find operators, see `benchmarks.folding`;
`python -m benchmarks checks [--nodes N ...] [--models FOLDER]` tells what the check of a source costs;
`python -m benchmarks proofs [--name REGEX]` measures what proofs of small models cost;
`python -m benchmarks waits [--models FOLDER] [--beside PYTHON]` measures where people wait, see `benchmarks.waits`;
`python -m benchmarks memory [--layers N]` measures the memory that proofs of large models take;
`python -m benchmarks.trees [FILE ...]` measures tree models as tables beside onnxruntime's kernels;
`python -m benchmarks optimizers [--models FOLDER] [--name REGEX]` compares optimizers, see `benchmarks.optimizers`;
`python -m benchmarks types [--models FOLDER] [--peer NAME=PYTHON ...]` compares converters to half precision, see
`benchmarks.types`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import conversions, folding, inlining, scaling


def main() -> None:
    """Measure and print."""
    options = _parsed()
    if options.steps:
        _say(scaling.steps(options.op))
    else:
        SUBJECTS[options.what](options)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("what", nargs="?", choices=list(SUBJECTS), default="conversions")
    parser.add_argument("--op", action="append", default=[], help="only these operators, of the definitions")
    parser.add_argument("--backend", action="append", default=[], help="only these backends")
    parser.add_argument("--markdown", action="store_true", help="definitions, optimizers and types as a page of docs/")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=PYTHON", help="types: a peer beside opshift"
    )
    parser.add_argument("--kind", choices=["float16", "bfloat16"], default="float16", help="types: the type")
    parser.add_argument(
        "--models",
        type=Path,
        help="optimizers: this folder, not the committed exports; checks, tried, types, waits: these models as well",
    )
    parser.add_argument("--beside", default="", help="waits: another Python, whose opshift is measured beside")
    parser.add_argument("--name", default="", help="only the models that this expression finds")
    parser.add_argument(
        "--rows", type=Path, help="tried, types: keep rows in this file, and do not measure those again"
    )
    parser.add_argument("--untried", action="store_true", help="deployed: by the table and by hand alone")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--steps", action="store_true", help="scaling: every frozen case instead of whole models")
    parser.add_argument("--gigabytes", type=int, default=1, help="of embedded weights")
    parser.add_argument("--layers", type=int, default=18, help="memory: of 67 MB each")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--limit", type=int, default=60, help="seconds of the processor that one conversion may take")
    return parser.parse_args()


def _say(lines: Iterable[object]) -> None:
    for line in lines:
        print(line, flush=True)


def _conversions(options: argparse.Namespace) -> None:
    for part in (conversions, inlining):
        _table(part.HEAD, part.SHAPES, options)
    _scaling(options)
    print()
    _folding(options)


def _inlining(options: argparse.Namespace) -> None:
    _table(inlining.HEAD, inlining.SHAPES, options)


def _table(head: str, shapes: Sequence[conversions.Shape], options: argparse.Namespace) -> None:
    print(head)
    for rows in conversions.measure(shapes, options.nodes, options.runs, options.limit):
        _say(map(conversions.line, rows))
    print()


def _scaling(options: argparse.Namespace) -> None:
    print(scaling.HEAD)
    _say(scaling.measure(options.nodes, options.runs, options.limit))


def _folding(options: argparse.Namespace) -> None:
    print(folding.HEAD)
    _say(scaling.measure(options.nodes, options.runs, options.limit, folding.SHAPES, folding.COMMAND))


def _weights(options: argparse.Namespace) -> None:
    from benchmarks import weights

    weights.measure(options.gigabytes, options.runs)


def _definitions(options: argparse.Namespace) -> None:
    from benchmarks import definitions

    compared = definitions.measure(options.op, options.runs)
    if options.markdown:
        print(definitions.as_markdown(compared), end="")
    else:
        Console(width=120).print(definitions.as_table(compared))


def _backends(options: argparse.Namespace) -> None:
    from opshift.passes.progress import tell

    from benchmarks import backends
    from opshift.cli.working import working

    with working(options):
        rows = [row for backend in options.backend or BACKENDS for row in backends.measure(backend, tell)]
    print(backends.document(rows), end="")


def _tried(options: argparse.Namespace) -> None:
    from benchmarks import tried

    counted = tried.rows(options.backend or BACKENDS, options.models, options.name, options.rows)
    print(tried.document(counted, tried.fixing(options.models)), end="")


def _deployed(options: argparse.Namespace) -> None:
    from benchmarks import deployed

    names = options.backend or deployed.BACKENDS
    tries = not options.untried
    found = [
        row
        for name in dict.fromkeys(names)
        for row in deployed.rows(name, name, options.models, options.name, options.rows, tries=tries)
        if row.backend in names
    ]
    print(deployed.document(list(dict.fromkeys(found))), end="")


def _vendors(options: argparse.Namespace) -> None:
    from opshift.passes.progress import tell

    from benchmarks import vendors
    from opshift.cli.working import working

    with working(options):
        models = list(vendors.saved(tell))
        names = options.backend or list(vendors.BACKENDS)
        measured = [row for name in names for row in vendors.measure(name, models, tell)]
    print(vendors.as_markdown(measured), end="")


def _optimizers(options: argparse.Namespace) -> None:
    from opshift.passes.progress import tell

    from benchmarks import optimizers
    from opshift.cli.working import working

    name, folder = options.name, options.models
    found = list(optimizers.of_folder(folder, name) if folder else optimizers.committed(name))
    with working(options):
        rows = list(optimizers.measure(found, options.runs, options.limit, tell))
    if options.markdown:
        print(optimizers.as_markdown(rows, options.runs), end="")
    else:
        Console(width=120).print(*optimizers.as_table(rows))


def _types(options: argparse.Namespace) -> None:
    from opshift.passes.progress import tell

    from benchmarks import types
    from opshift.cli.working import working

    chosen = list(types.subjects(options.models, options.name))
    with working(options):
        rows = types.measure(chosen, types.pythons_of(options.peer), options.kind, options.rows, tell)
    if not options.markdown:
        _say(f"{row.contender} | {row.model} | {row.kind} | {'; '.join(row.wrong)}" for row in rows if row.wrong)
    print(types.as_markdown(rows), end="")


def _checks(options: argparse.Namespace) -> None:
    from benchmarks import checks

    print(checks.HEAD)
    _say(checks.measure(options.nodes, options.runs, options.models))


def _memory(options: argparse.Namespace) -> None:
    from benchmarks import memory

    _say(memory.measure(options.layers))


def _proofs(options: argparse.Namespace) -> None:
    from benchmarks import proofs

    _say(proofs.measure(options.runs, options.name))


def _waits(options: argparse.Namespace) -> None:
    from benchmarks import waits

    print(waits.HEAD)
    _say(waits.measure(options.runs, options.beside, options.models))


BACKENDS = ["openvino", "opencv", "tract"]
SUBJECTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "conversions": _conversions,
    "inlining": _inlining,
    "scaling": _scaling,
    "folding": _folding,
    "weights": _weights,
    "definitions": _definitions,
    "backends": _backends,
    "tried": _tried,
    "deployed": _deployed,
    "vendors": _vendors,
    "optimizers": _optimizers,
    "checks": _checks,
    "memory": _memory,
    "proofs": _proofs,
    "waits": _waits,
    "types": _types,
}

if __name__ == "__main__":
    main()

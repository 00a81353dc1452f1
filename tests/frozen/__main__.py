"""`python -m tests.lab freeze --opset NN` freezes a new opset; `python -m tests.lab freeze --reach` records reach.json anew."""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from tests.conformance.cases import Case, all_cases
from tests.conformance.draws import is_random
from tests.conformance.judge import CRASHED, INVALID, OK, WRONG, judge
from tests.frozen import store
from tests.runtime import Runtime

LARGEST = 20_000


def main() -> int:
    """Exit 1 if a frozen case is converted wrongly, and then write no reach."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab freeze", description=__doc__)
    parser.add_argument("--opset", type=int, action="append", default=[], help="freeze this opset; never twice")
    parser.add_argument("--reach", action="store_true", help="convert every frozen case and rewrite reach.json")
    options = parser.parse_args()
    for opset in options.opset:
        if store.archive(opset).exists():
            parser.error(f"{store.archive(opset).name} exists; a frozen file is never written again")
    if not options.opset and not options.reach:
        parser.error("nothing to do")
    console = Console(soft_wrap=True, highlight=False, markup=False)
    if options.opset:
        published = list(all_cases())
        for opset in options.opset:
            freeze(opset, published, console)
    return record(options.opset if not options.reach else store.frozen_opsets(), console)


def freeze(opset: int, published: list[Case], console: Console) -> None:
    """Write one case per operator version that no older file shows: the smallest that reproduces.

    Cases that onnxruntime reproduces come first: where only onnx.reference does, outputs may be published more exactly
    than float32 arithmetic in another order can compute them.
    """
    wanted = store.unshown(opset)
    candidates = defaultdict(list)
    for case in published:
        if case.opset == opset and suitable(case):
            for op in store.operators(case.model) & wanted:
                candidates[op].append(case)
    chosen: dict[str, Case] = {}
    for op in sorted(wanted):
        ordered = sorted(candidates[op], key=plainest)
        free = [case for case in ordered if chosen.get(case.name, case) is case]
        best = next((c for c in free if reproducing(c).startswith(Runtime.engine)), None)
        best = best or next((c for c in free if reproducing(c)), None)
        if best is not None:
            chosen[best.name] = best
        elif op in store.introduced(opset):
            console.print(f"opset {opset}: no suitable case of {op}")
    path = store.archive(opset)
    store.write(path, chosen.values())
    console.print(f"{path.name}: {len(chosen)} cases, {path.stat().st_size} bytes")


def suitable(case: Case) -> bool:
    """As published, with tensors only, nothing drawn at random, some output to compare, and small."""
    values = [*case.inputs.values(), *case.outputs]
    return (
        not case.name.endswith("[bound]")
        and len(case.inputs) == len(case.model.graph.input)
        and all(isinstance(value, np.ndarray) for value in values)
        and any(value.size for value in case.outputs)
        and not is_random(case.model)
        and size(case) <= LARGEST
    )


def size(case: Case) -> int:
    return sum(map(len, store.files(case).values()))


def plainest(case: Case) -> tuple[int, int, str]:
    return len(case.model.graph.node), size(case), case.name


def reproducing(case: Case) -> str:
    """The engine that reproduces the case, read back from a file, at its own opset or the lowest above; "" if none."""
    with tempfile.TemporaryDirectory() as folder:
        store.write(store.archive(case.opset, Path(folder)), [case])
        (kept,) = store.read(case.opset, Path(folder))
    verdict = judge(kept, max(case.opset, store.LOWEST))
    return verdict.engine if verdict.status == OK else ""


def record(opsets: list[int], console: Console) -> int:
    """Convert the cases of `opsets` to every opset and write where they got; say what they no longer reach."""
    old = store.read_reach() if (store.FOLDER / "reach.json").exists() else {}
    new = dict(old)
    failed = False
    for opset in track(opsets, console=console, disable=not console.is_terminal):
        new[opset] = {}
        for case in store.read(opset):
            verdicts = [judge(case, target) for target in store.targets()]
            new[opset][case.name] = [verdict.target for verdict in verdicts if verdict.status == OK]
            for verdict in verdicts:
                was_reached = verdict.target in old.get(opset, {}).get(case.name, [])
                bad = verdict.status in (WRONG, INVALID, CRASHED)
                failed |= bad
                if bad or (was_reached and verdict.status != OK):
                    console.print(f"{verdict.status}: {case.name} {opset}->{verdict.target}: {verdict.why}")
    if failed:
        return 1
    store.write_reach(new)
    pairs = sum(len(reached) for cases in new.values() for reached in cases.values())
    cases = sum(map(len, new.values()))
    console.print(f"{cases} cases reach {pairs} of {cases * len(store.targets())} opsets")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

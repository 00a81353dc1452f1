"""`python -m benchmarks.converters [--sample N] > docs/converters.md`: what converters do to the tests of ONNX.

The cases of the conformance tests, or so many of them chosen at random, are converted by each contender to each opset
of `TARGETS`, and each operator with a body in onnx is inlined; the judge of the conformance tests runs the results.
Peers state no grade: all are judged with the tolerance for other rounding.
"""

from __future__ import annotations

import argparse
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TypeVar

import onnx
import onnx.defs
import onnx.inliner
import onnx.version_converter
from onnx import ModelProto
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel

from tests.conformance.cases import Case, all_cases
from tests.conformance.judge import CRASHED, INVALID, OK, OK_BY_SOURCE, REFUSED, UNJUDGED, WRONG, examine

Work = TypeVar("Work")
TARGETS = (9, 13, 17, 21, 25)
STATUSES = (OK, OK_BY_SOURCE, WRONG, INVALID, CRASHED, REFUSED, UNJUDGED)


@dataclass(frozen=True)
class Row:
    """How often each status occurs for one contender and one task."""

    task: str
    contender: str
    counts: Counter[str]


def by_opshift(model: ModelProto, target: int) -> ModelProto | None:
    """Converted by this project; None where it refuses."""
    try:
        return convert.convert_model(model, {"": target}).model
    except InvalidModel:
        return None


def by_onnx(model: ModelProto, target: int) -> ModelProto | None:
    """Converted by onnx's own converter; None where it raises."""
    try:
        return onnx.version_converter.convert_version(model, target)
    except Exception:
        return None


def by_onnxscript(model: ModelProto, target: int) -> ModelProto | None:
    """Converted by onnxscript, which falls back on onnx's; None where it raises or leaves the model as it was."""
    import onnx_ir
    import onnxscript.version_converter

    logging.disable(logging.CRITICAL)
    try:
        held = onnx_ir.from_proto(model)
        onnxscript.version_converter.convert_version(held, target, fallback=True)
        return onnx_ir.to_proto(held) if held.opset_imports.get("") == target else None
    except Exception:
        return None


def inlined_by_opshift(model: ModelProto, op: str) -> ModelProto | None:
    """With one operator expanded by this project; None where it refuses."""
    return convert.convert_model(model, {"": _opset(model)}, ops=[("", op)]).model


def inlined_by_onnx(model: ModelProto, op: str) -> ModelProto | None:
    """With one operator inlined by onnx's inliner; None where it raises or the operator is still there."""
    try:
        found = onnx.inliner.inline_selected_functions(model, [("", op)], inline_schema_functions=True)
    except Exception:
        return None
    return found if all(node.op_type != op for node in found.graph.node) else None


CONVERTERS = {"opshift": by_opshift, "onnx.version_converter": by_onnx, "onnxscript": by_onnxscript}
INLINERS = {"opshift": inlined_by_opshift, "onnx.inliner": inlined_by_onnx}


def published(sample: int) -> list[Case]:
    """The tests that eleven releases of onnx published, or so many of them."""
    cases = list(all_cases())
    return random.Random(0).sample(cases, min(sample, len(cases))) if sample else cases


def measure(cases: list[Case]) -> Iterator[Row]:
    """Conversion up and down, and inlining, each contender by itself."""
    for name in CONVERTERS:
        found = _run(_converted, [(name, case, target) for case in cases for target in TARGETS if target != case.opset])
        for direction, up in (("up", True), ("down", False)):
            chosen = (status for (_, case, target), status in found if (target > case.opset) == up)
            yield Row(direction, name, Counter(chosen))
    for name in INLINERS:
        found = _run(_inlined, [(name, case, op) for case in cases for op in sorted(case.ops & _with_a_body())])
        yield Row("inline", name, Counter(status for _, status in found))


def _run(do: Callable[[Work], str], work: list[Work]) -> list[tuple[Work, str]]:
    """Each piece of work with its status, in another process: one that kills it is a crash."""
    found: list[tuple[Work, str]] = []
    while len(found) < len(work):
        with ProcessPoolExecutor(1) as pool:
            try:
                for status in pool.map(do, work[len(found) :], chunksize=1):
                    found.append((work[len(found)], status))
            except BrokenProcessPool:
                found.append((work[len(found)], CRASHED))
    return found


def _converted(work: tuple[str, Case, int]) -> str:
    name, case, target = work
    return _status(case, CONVERTERS[name](case.model, target))


def _inlined(work: tuple[str, Case, str]) -> str:
    name, case, op = work
    return _status(case, INLINERS[name](case.model, op))


def _status(case: Case, model: ModelProto | None) -> str:
    return REFUSED if model is None else examine(case, model, rounded=True).status


@cache
def _with_a_body() -> frozenset[str]:
    """The operators of the default domain of which onnx has a definition by other operators."""
    schemas = onnx.defs.get_all_schemas()
    return frozenset(s.name for s in schemas if not s.domain and (s.has_function or s.has_context_dependent_function))


def _opset(model: ModelProto) -> int:
    return next(i.version for i in model.opset_import if i.domain in ("", "ai.onnx"))


HEAD = """\
# Converters judged

Written by `python -m benchmarks.converters{sample}`. The benchmark takes {cases} of the cases of
[Conformance](conformance.md), chosen at random. Each converter converts each case to the opsets {targets}, and
inlines each operator for which onnx has a definition. Results run and are judged as in Conformance; every converter
may round differently. Versions: onnx {onnx}, onnxscript {onnxscript} (with `fallback=True`), onnxruntime
{onnxruntime}.

- *refused*: the converter says no by an error, a model at its old opset, or an operator that is still there.
- *wrong*: the result computes other numbers, without a warning.
- *invalid*: onnx.checker rejects the result.
- *crashed*: the process ended.
"""


def document(rows: list[Row], cases: int, sample: int) -> str:
    """The page."""
    versions = {name: version(name) for name in ("onnx", "onnxscript", "onnxruntime")}
    targets = f"{', '.join(map(str, TARGETS[:-1]))} and {TARGETS[-1]}"
    lines = [
        HEAD.format(cases=f"{cases:,}", targets=targets, sample=f" --sample {sample}" if sample else "", **versions)
    ]
    lines += ["| | contender | " + " | ".join(STATUSES) + " | total |", "|---" * (len(STATUSES) + 3) + "|"]
    for row in rows:
        numbers = " | ".join(f"{row.counts[status]:,}" for status in STATUSES)
        lines.append(f"| {row.task} | {row.contender} | {numbers} | {row.counts.total():,} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.converters")
    parser.add_argument("--sample", type=int, default=0, help="only so many cases, chosen at random")
    sample = parser.parse_args().sample
    cases = published(sample)
    print(document(list(measure(cases)), len(cases), sample), end="")


if __name__ == "__main__":
    main()

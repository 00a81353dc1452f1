"""Verify a model with another batch size (`--rebatch`): the source runs once for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.passes import progress
from opshift.passes.changes import Batch
from opshift.passes.records import replace
from opshift.verification import isolation
from opshift.verification.bounds import measure
from opshift.verification.engines import ENGINES, EngineError, Feeds
from opshift.verification.feeding import inputs as feeding
from opshift.verification.feeding.asked import Asked
from opshift.verification.side import Side
from opshift.verification.verdict import DIFFERENT, EQUAL, UNVERIFIED, OutputReport, Verification
from opshift.verification.whole import OutputJudge, Run


def verify_samples_apart(
    before: Side, after: Side, of: Batch, values: Feeds, *, grade: str, wanted: Asked
) -> Verification:
    """Call `verify_samples` in another process; a crash makes the model unverified. Runs for `--rebatch`."""
    try:
        return isolation.call(verify_samples, before, after, of, values, grade=grade, wanted=wanted)
    except isolation.Ended as ended:
        return Verification(UNVERIFIED, why=str(ended))


def verify_samples(before: Side, after: Side, of: Batch, values: Feeds, *, grade: str, wanted: Asked) -> Verification:
    """Run the second model on a batch, and the first on one sample after the other."""
    reasons = []
    for engine in ENGINES:
        try:
            return _run(replace(before, engine=engine), replace(after, engine=engine), of, values, grade, wanted)
        except EngineError as error:
            reasons.append(str(error))
    return Verification(UNVERIFIED, why="; ".join(dict.fromkeys(reasons)))


def _run(before: Side, after: Side, of: Batch, values: Feeds, grade: str, wanted: Asked) -> Verification:
    """Do the work of `verify_samples` with both models opened: compare the batch with the samples, run by run."""
    one, other = before.open(), after.open()
    names = [value.name for value in before.model.graph.output]

    def by_samples(run: Run) -> Run:
        return lambda given: once_a_sample(run, {**given, **values}, of, names)

    judge = OutputJudge(before, grade, wanted.tolerances, names, by_samples)
    outputs: dict[str, OutputReport] = {}
    total = Verification(EQUAL, engine=f"{after.engine_name}, the source once a sample")
    for fed in feeding.running(after, other.run, wanted):
        progress.tell("run the source once a sample", total.runs + 1, 0)
        expected = by_samples(one.run)(fed.given)
        total = replace(total, runs=total.runs + 1, inputs=(*total.inputs, fed.shapes))
        for name, a, b in zip(names, expected, fed.outputs, strict=True):
            report = judge.output(name, fed.given, a, b, expected)
            outputs[name] = outputs[name].worse(report) if name in outputs else report
            worst = [max(pair) for pair in zip((total.absolute, total.relative), measure(a, b), strict=True)]
            total = replace(total, absolute=worst[0], relative=worst[1], outputs=tuple(outputs.values()))
            if report.why:
                return replace(total, status=DIFFERENT, tensor=name, why=report.why)
    return replace(total, is_same=all(report.is_same for report in outputs.values()))


def once_a_sample(run: Run, given: Feeds, of: Batch, names: Sequence[str]) -> list[Any]:
    """Run a model with batch size `of.size` over all samples, and join the outputs; the last batch is padded."""
    import numpy as np

    count = min(given[name].shape[axis] for name, axis in of.inputs.items() if name in given)
    parts = []
    for start in range(0, count, of.size):
        places = np.minimum(np.arange(start, start + of.size), count - 1)
        parts.append(run({n: np.take(v, places, axis=of.inputs[n]) if n in of.inputs else v for n, v in given.items()}))
    if not parts:
        raise EngineError("the batch is empty")
    outputs = []
    for index, name in enumerate(names):
        axis = of.outputs.get(name)
        values = [part[index] for part in parts]
        outputs.append(values[0] if axis is None else np.concatenate(values, axis=axis).take(range(count), axis=axis))
    return outputs

"""Verifies a model that takes another number of samples: its source is run once a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from opshift.passes import progress
from opshift.passes.changes import Batch
from opshift.passes.records import replace
from opshift.verification import isolation
from opshift.verification.compare import compare
from opshift.verification.engines import ENGINES, EngineError, Feeds
from opshift.verification.feeding import inputs as feeding
from opshift.verification.feeding.asked import Asked
from opshift.verification.judgement import Verification
from opshift.verification.side import Side

if TYPE_CHECKING:
    from opshift.verification.judge import Pair

Run = Callable[[Feeds], list[Any]]


def verify_samples_apart(
    before: Side, after: Side, of: Batch, values: Feeds, *, grade: str, wanted: Asked
) -> Verification:
    """`verify_samples` in a process of its own: a model that ends it is unverified."""
    try:
        return isolation.call(verify_samples, before, after, of, values, grade=grade, wanted=wanted)
    except isolation.Ended as ended:
        return Verification("unverified", why=str(ended))


def verify_samples(before: Side, after: Side, of: Batch, values: Feeds, *, grade: str, wanted: Asked) -> Verification:
    """Run the second model on several samples, and the first, which is fed `values`, too, on one after the other."""
    reasons = []
    for engine in ENGINES:
        try:
            return _run(replace(before, engine=engine), replace(after, engine=engine), of, values, grade, wanted)
        except EngineError as error:
            reasons.append(str(error))
    return Verification("unverified", why="; ".join(dict.fromkeys(reasons)))


def _run(before: Side, after: Side, of: Batch, values: Feeds, grade: str, wanted: Asked) -> Verification:
    from opshift.verification.judge import Pair

    one, other = before.open(), after.open()
    pair = Pair(before, after, grade, wanted.tolerances)
    pair.why = "the source runs once a sample"
    total = Verification("equal", f"{after.named}, the source once a sample", float64=pair.told())
    for fed in feeding.running(after, other.run, wanted):
        progress.tell("run the source once a sample", total.runs + 1, 0)
        expected = once_a_sample(one.run, {**fed.given, **values}, of, pair.names)
        total = replace(total, runs=total.runs + 1, inputs=(*total.inputs, fed.shapes))
        verdict = pair.judge(fed.given, expected, fed.outputs)
        if any(found.why for found in verdict.outputs):  # both may be far from what the model means
            with suppress(EngineError):
                verdict = _by_twins(pair, of, values).judge(fed.given, expected, fed.outputs)
        for found, a, b in zip(verdict.outputs, expected, fed.outputs, strict=True):
            seen = compare(a, b)
            worst = max(total.absolute, seen.absolute), max(total.relative, seen.relative)
            total = replace(total, absolute=worst[0], relative=worst[1])
            if found.why:
                return replace(total, status="different", tensor=found.output, why=found.why)
    return total


def _by_twins(pair: Pair, of: Batch, values: Feeds) -> Pair:
    """The pair with twins in float64, of which that of the source runs once a sample, too."""
    from opshift.verification.judge import Pair
    from opshift.verification.twins.twin import Twin

    class Once(Twin):
        """The source in float64, one sample after the other."""

        def run(self, feeds: Feeds, **asked: Any) -> list[Any]:
            if asked.get("forced") or asked.get("watch"):
                raise EngineError("samples have no values in common")
            noise = bool(asked.get("noise"))
            return once_a_sample(lambda one: Twin.run(self, one, noise=noise), {**feeds, **values}, of, pair.names)

    before, after = pair.before, pair.after
    found = Pair(before, after, pair.grade, pair.asked)
    found.twins = Once(before.model, before.folder), Twin(after.model, after.folder)
    return found


def once_a_sample(run: Run, given: Feeds, of: Batch, names: Sequence[str]) -> list[Any]:
    """The outputs for all samples of a model that takes `of.size` at once; the last one fills up what is missing."""
    import numpy as np

    count = min(given[name].shape[axis] for name, axis in of.inputs.items() if name in given)
    parts = []
    for start in range(0, count, of.size):
        places = np.minimum(np.arange(start, start + of.size), count - 1)
        parts.append(run({n: np.take(v, places, axis=of.inputs[n]) if n in of.inputs else v for n, v in given.items()}))
    if not parts:
        raise EngineError("there are no samples")
    outputs = []
    for index, name in enumerate(names):
        axis = of.outputs.get(name)
        values = [part[index] for part in parts]
        outputs.append(values[0] if axis is None else np.concatenate(values, axis=axis).take(range(count), axis=axis))
    return outputs

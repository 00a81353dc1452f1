"""Layers that read labels from scores over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.layers.draw import INTEGERS, Draw, recipe


def _scores(d: Draw, *lead: int) -> Any:
    """Scores of which no two are equal: which of them is the best is left open."""
    shape = *lead, d.number(2, 4)
    order = np.argsort(d.rng.random(shape), -1)
    return order.astype(np.float32)


@recipe
def labels_over_time(d: Draw) -> Any:
    """A mask is 1 as long as a sequence is."""
    time, batch = d.number(1, 6), d.number(1, 3)
    lengths = d.rng.integers(0, time + 1, batch)
    mask = (np.arange(time)[:, None] < lengths).astype(np.float32)
    inputs = [d.parameter(_scores(d, time, batch)), d.given(mask, run_time=0.5)]
    return d.make(1, "CTCGreedyDecoder", inputs, ctc_merge_repeated=d.chance())


@recipe
def beams(d: Draw) -> Any:
    """Of steps in time, each of which has beams that come from those of the step before."""
    time, batch, width = d.number(1, 6), d.number(1, 3), d.number(1, 4)
    kind = d.one(("int32", "float32"))
    steps = d.rng.integers(0, 6, (time, batch, width))
    parents = d.rng.integers(0, width, steps.shape)
    lengths = d.rng.integers(1, time + 3, batch)  # of 0, OpenVINO leaves what nobody wrote
    inputs = [d.parameter(steps.astype(kind)), d.parameter(parents.astype(kind)), d.given(lengths, kind)]
    return d.make(1, "GatherTree", [*inputs, d.given(d.number(0, 6), kind)])


@recipe
def labels_of_sequences(d: Draw) -> Any:
    batch, time = d.number(1, 3), d.number(1, 6)
    scores, kind = _scores(d, batch, time), d.one(INTEGERS)
    inputs = [d.parameter(scores), d.given(d.rng.integers(0, time + 1, batch), kind, 0.5)]
    if d.chance():
        inputs.append(d.given([d.number(0, scores.shape[-1] - 1)], kind))
    names = "classes_index_type", "sequence_length_type"
    held = {name: d.one(("i32", "i64")) for name in names}
    return d.make(6, "CTCGreedyDecoderSeqLen", inputs, merge_repeated=d.chance(), **held)

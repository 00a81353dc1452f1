"""From and to the opsets 1 to 6, for which onnxruntime lacks kernels: judged as far as something else computes them.

Upwards that is onnxruntime at the target. Downwards it is onnx.reference where nothing is broadcast along an axis, or
onnxruntime after onnx's own converter has taken the result up again; the rest is unjudged, and none of it is claimed.
"""

import random
from itertools import cycle

import pytest

from tests import pairs
from tests.conformance.cases import Case
from tests.conformance.judge import CRASHED, INVALID, OK, UNJUDGED, WRONG, judge

SEED, SIZE = 6, 30
BAD = (WRONG, INVALID, CRASHED)


def test_every_case_of_these_opsets_is_right_above(published: list[Case]):
    old = [case for case in published if case.opset < 7 and "[bound]" not in case.name]
    assert len(old) > 200
    verdicts = [judge(case, target) for case, target in pairs.some(list(zip(old, cycle((7, 13)))), 3)]
    bad = [f"{v.case} {v.source}->{v.target} {v.status}: {v.why}" for v in verdicts if v.status in (*BAD, UNJUDGED)]
    assert not bad, "\n".join(bad)
    assert sum(v.status == OK for v in verdicts) > 0.9 * len(verdicts)


@pytest.mark.parametrize("target", [*range(1, 6), pytest.param(6, marks=pytest.mark.long)])
def test_no_sampled_case_goes_wrong_below(published: list[Case], target: int):
    sample = random.Random(SEED).sample(
        [case for case in published if case.opset > target], len(pairs.some(range(SIZE), 2))
    )
    verdicts = [judge(case, target) for case in sample]
    bad = [f"{v.case} {v.source}->{v.target} {v.status}: {v.why}" for v in verdicts if v.status in BAD]
    assert not bad, "\n".join(bad)
    assert sum(v.status == OK for v in verdicts) > len(sample) / 4, "too few conversions to say anything"

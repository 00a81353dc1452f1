"""A sample of the published cases to every opset: nothing wrong, nothing invalid, nothing crashed."""

import random

import pytest
from opshift.passes import schemas

from tests.conformance.cases import Case, expandable
from tests.conformance.judge import CRASHED, INVALID, OK, WRONG, judge

SEED, SIZE = 20, 150


@pytest.fixture(scope="module")
def sample(published: list[Case]) -> list[Case]:
    return random.Random(SEED).sample(published, SIZE)


@pytest.mark.parametrize("target", range(7, schemas.latest() + 1))
def test_no_sampled_case_goes_wrong(sample: list[Case], target: int):
    verdicts = [judge(case, target) for case in sample]
    bad = [
        f"{v.case} ({v.release}) {v.source}->{target} {v.status}: {v.why}"
        for v in verdicts
        if v.status in (WRONG, INVALID, CRASHED)
    ]
    assert not bad, "\n".join(bad)
    assert sum(v.status == OK for v in verdicts) > SIZE / 2, "too few conversions to say anything"


def test_no_expanded_operator_of_a_sampled_case_goes_wrong(sample: list[Case]):
    verdicts = [judge(case, case.opset, [("", op)]) for case in sample for op in sorted(case.ops & expandable())]
    bad = [f"{v.case} ({v.release}) {v.status}: {v.why}" for v in verdicts if v.status in (WRONG, INVALID, CRASHED)]
    assert not bad, "\n".join(bad)
    assert sum(v.status == OK for v in verdicts) > len(verdicts) / 2, "too few expansions to say anything"

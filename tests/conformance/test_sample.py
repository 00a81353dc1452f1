"""A sample of the published cases to every opset: nothing wrong, nothing invalid, nothing crashed."""

import random

import pytest
from opshift.passes.conversion import convert
from opshift.passes.model import schemas
from opshift.passes.model.traversal import bodies

from tests import pairs
from tests.conformance.cases import Case, expandable
from tests.conformance.judge import CRASHED, INVALID, OK, WRONG, judge

SEED, SIZE = 20, 75


@pytest.fixture(scope="module")
def sample(published: list[Case]) -> list[Case]:
    return random.Random(SEED).sample(published, SIZE)


@pytest.mark.parametrize("target", range(7, schemas.latest() + 1))
def test_no_sampled_case_goes_wrong(sample: list[Case], target: int):
    verdicts = [judge(case, target) for case in (sample if pairs.whole else sample[target % 8 :: 8])]
    bad = [
        f"{v.case} ({v.release}) {v.source}->{target} {v.status}: {v.why}"
        for v in verdicts
        if v.status in (WRONG, INVALID, CRASHED)
    ]
    assert not bad, "\n".join(bad)
    assert sum(v.status == OK for v in verdicts) > len(verdicts) / 2, "too few conversions to say anything"


@pytest.mark.long
def test_no_expanded_operator_of_a_sampled_case_goes_wrong(sample: list[Case]):
    verdicts = [judge(case, case.opset, [("", op)]) for case in sample for op in sorted(case.ops & expandable())]
    bad = [f"{v.case} ({v.release}) {v.status}: {v.why}" for v in verdicts if v.status in (WRONG, INVALID, CRASHED)]
    assert not bad, "\n".join(bad)
    assert sum(v.status == OK for v in verdicts) > len(verdicts) / 2, "too few expansions to say anything"


@pytest.mark.parametrize("part", range(4))
def test_nothing_goes_wrong_however_deep_operators_are_expanded(sample: list[Case], part: int):
    """What an expansion is made of is expanded as well, again and again, until there is no definition or a refusal."""
    judged = []
    for case in pairs.some(sample[part::4], 2):
        denied: set[str] = set()
        more = case.ops & expandable()
        while more:
            result = convert.attempt(case.model, {"": case.opset}, ops=[("", op) for op in denied | more])
            if result.model is None:
                break
            denied |= more
            more = {node.op_type for body in bodies(result.model) for node in body.node} & expandable()
        if denied:
            judged.append(judge(case, case.opset, [("", op) for op in sorted(denied)]))
    bad = [f"{v.case} ({v.release}) {v.status}: {v.why}" for v in judged if v.status in (WRONG, INVALID, CRASHED)]
    assert not bad, "\n".join(bad)
    assert sum(v.status == OK for v in judged) > len(judged) / 2, "too few expansions to say anything"

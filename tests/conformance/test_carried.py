"""A sample of the published cases of types that older opsets lack, which are carried in wider ones."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests import pairs
from tests.conformance.carried import as_carried, stranger
from tests.conformance.cases import Case
from tests.conformance.judge import OK, OK_BY_SOURCE, judge

SEED, SIZE = 4, 40
pytestmark = pytest.mark.newest


@pytest.fixture(scope="module")
def sample(published: list[Case]) -> list[Case]:
    found = [carried for case in published if (carried := as_carried(case)) is not None]
    return random.Random(SEED).sample(found, SIZE)


@pytest.mark.parametrize("target", [7, 12, 18, 20, 24])
def test_no_sampled_case_goes_wrong(sample: list[Case], target: int):
    verdicts = [judge(case, target) for case in pairs.some(sample[target % 2 :: 2], 2)]
    assert {verdict.status for verdict in verdicts} <= {OK, OK_BY_SOURCE}, [v for v in verdicts if v.status != OK]


def test_numbers_of_another_type_are_found(sample: list[Case]):
    case = next(case for case in sample if case.origin is not None and case.outputs[0].dtype == np.float32)
    assert not stranger(case, case.outputs)
    off = [value + np.float32(0.01) * np.ones_like(value) for value in case.outputs]
    assert "numbers that are none of" in stranger(case, off)

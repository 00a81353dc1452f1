"""Published cases of control flow yield what they did, once they are unrolled and their Ifs are Wheres."""

from __future__ import annotations

import random

import pytest
from opshift.passes.model.traversal import census
from opshift.passes.specialization.door import LOOPS
from opshift.passes.stages.unroll import remove_control_flow

from tests import pairs
from tests.conformance.cases import Case, held
from tests.conformance.judge import OK, OK_BY_SOURCE, examine

SEED, SIZE = 3, 16
pytestmark = pytest.mark.newest


def control_flow(case: Case) -> set[str]:
    calls = census([*case.model.functions, case.model.graph])[1]
    return {op for domain, op in calls if not domain} & {*LOOPS, "If"}


@pytest.fixture(scope="module")
def cases(published: list[Case]) -> list[Case]:
    """All that have control flow, and the same with inputs that are constants."""
    found = [case for case in published if control_flow(case)]
    constant = [held(case) for case in found if control_flow(case) - LOOPS or "Loop" in case.ops]
    found += [case for case in constant if case is not None]
    return found if pairs.whole else random.Random(SEED).sample(found, SIZE)


def test_published_cases(cases: list[Case]):
    statuses = list[str]()
    for case in cases:
        done = remove_control_flow(case.model, 64, 64, LOOPS, None)
        assert done.changes or done.stays, case.name
        if done.changes:
            found = examine(case, done.model, rounded=any(change.grade == "close" for change in done.changes))
            assert found.status in (OK, OK_BY_SOURCE), (case.name, found)
            statuses.append(found.status)
    assert len(statuses) >= len(cases) // 3

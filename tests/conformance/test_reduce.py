"""Every published case of the reduce family, ArgMax and ArgMin converts, up and down, and reproduces its outputs.

Each goes to one of nine opsets here, to a third of them with `--whole`, and to all in `python -m tests.lab conformance --family reduction`.
"""

import pytest

from tests import pairs
from tests.conformance.cases import Case
from tests.conformance.judge import OK, judge

# where a version of the family begins or ends, the first and the last that onnxruntime can judge, and one in between
OPSETS = (7, 9, 10, 12, 13, 17, 18, 20, 26, 28)


@pytest.fixture(scope="module")
def reductions(published: list[Case]) -> list[Case]:
    return [case for case in published if case.name.startswith(("test_reduce", "test_arg"))]


def test_all_of_the_family_is_there(reductions: list[Case]):
    assert len(reductions) >= 600
    names = {"L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"}
    family = {f"Reduce{name}" for name in names} | {"ArgMax", "ArgMin"}
    assert family <= set().union(*(case.ops for case in reductions))


@pytest.mark.parametrize("target", OPSETS)
def test_every_reduction_converts(reductions: list[Case], target: int):
    verdicts = [judge(case, target) for case in pairs.some(reductions[OPSETS.index(target) % 3 :: 3], 18)]
    lost = [f"{v.case} ({v.release}) {v.source}->{target} {v.status}: {v.why}" for v in verdicts if v.status != OK]
    assert not lost, "\n".join(lost)

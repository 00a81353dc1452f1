"""The pairs that judge the proof are what they are called: onnxruntime tells them apart, or does not."""

import pytest

from tests.lab.proof.pairs import cases, check

pytestmark = pytest.mark.newest


def test_each_pair_differs_or_agrees_as_it_is_said_to():
    complaints = []
    for case in cases():
        try:
            check(case)
        except Exception as error:
            complaints.append(f"{case.pair.name}: {error}")
    assert not complaints, "\n".join(complaints)


def test_names_are_told_apart():
    names = [case.pair.name for case in cases()]
    assert len(names) == len(set(names))

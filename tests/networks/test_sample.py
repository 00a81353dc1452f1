"""A part of `python -m tests.lab networks`: some published case, and some exported families."""

import pytest

from tests.networks import corpus

pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")


@pytest.fixture(scope="module")
def published():
    return list(corpus.published())


@pytest.mark.long
def test_published_cases_agree(published):
    tally = corpus.run(iter(published[::150]))
    assert not tally.counts["differs"], tally.lines
    assert tally.counts["agrees"] > 5 * tally.counts["refused"]


@pytest.fixture(scope="module")
def by_name(published):
    return {case.name: case for case in published}


@pytest.mark.parametrize(
    "name",
    [
        "test_if",
        "test_loop11",
        "test_scan9_sum",
        "test_scan9_multi_state",
        "test_range_float_type_positive_delta_expanded",
        "test_unique_sorted_with_axis",
        "test_onehot_negative_indices",
        "test_quantizelinear",
    ],
)
def test_a_published_case_agrees(name, by_name):
    assert corpus.judge(by_name[name]) == corpus.Verdict("agrees")


@pytest.mark.long
def test_exported_models_agree():
    families = {case.name.rsplit("/", 1)[0]: case for case in corpus.exported()}
    tally = corpus.run(iter(list(families.values())[::8]))
    assert not tally.counts["differs"], tally.lines
    assert tally.counts["agrees"]

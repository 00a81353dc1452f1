"""A part of `python -m tests.networks`: some published case, and some exported families."""

import pytest

from tests.networks import corpus

pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")


def test_published_cases_agree():
    held = list(corpus.published())
    tally = corpus.run(iter(held[::150]))
    assert not tally.counts["differs"], tally.lines
    assert tally.counts["agrees"] > 5 * tally.counts["refused"]


def test_exported_models_agree():
    families = {case.name.rsplit("/", 1)[0]: case for case in corpus.exported()}
    tally = corpus.run(iter(list(families.values())[::8]))
    assert not tally.counts["differs"], tally.lines
    assert tally.counts["agrees"]

"""Calls of layers as cases of one node: onnxruntime takes each, and what it makes of it is expected."""

import numpy as np
import pytest

from opshift.probing import network_calls
from opshift.verification.engines import OnnxRuntime


@pytest.fixture(scope="module")
def held():
    return list(network_calls.layers())


@pytest.mark.long
def test_onnxruntime_takes_each_line(held):
    lines = network_calls._TABLE.read_text(encoding="utf-8").splitlines()
    assert [case.name for case in held] == [line for line in lines if not line.startswith("#")]


def test_only_the_first_input_is_none_of_the_constants(held):
    assert all(len(case.feeds) == len(case.model.graph.input) == 1 for case in held)


def test_ranks_that_no_published_test_has_are_among_them(held):
    ranks = {(case.op[1], next(iter(case.feeds.values())).ndim) for case in held}
    assert {("Conv", 3), ("Slice", 1), ("Pad", 1), ("Unsqueeze", 0), ("Resize", 3)} <= ranks


def test_what_is_expected_is_what_the_model_yields(held):
    for case in held[:2]:
        np.testing.assert_array_equal(OnnxRuntime(case.model).run(case.feeds)[0], case.expected[0])

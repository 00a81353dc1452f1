"""Random models, from a random opset to a random opset: what is converted computes the same, or it is refused."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from opshift.passes.conversion import convert
from opshift.passes.optimization import optimize

from opshift.verification.bounds import compare
from opshift.verification.engines import EngineError, OnnxRuntime
from tests.scenarios.random_models import FEEDS, make


def feeds():
    values = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    return {name: np.resize(values, shape) for name, shape in FEEDS.items()}


def run(model, condition):
    with np.errstate(all="ignore"):
        return OnnxRuntime(model).run({**feeds(), "c": np.array(condition)})


def judge(source, target):
    """Convert and compare; returns whether it was converted."""
    try:
        onnx.checker.check_model(source)
        expected = [run(source, condition) for condition in (True, False)]
    except (EngineError, onnx.checker.ValidationError):
        assume(False)
    kept = source.SerializeToString()
    result = convert.attempt(source, {"": target})
    assert source.SerializeToString() == kept
    if result.model is None:
        assert result.refusals
        return False
    onnx.checker.check_model(result.model)
    for condition, outputs in zip((True, False), expected, strict=True):
        for before, after in zip(outputs, run(result.model, condition), strict=True):
            difference = compare(before, after, result.grade)
            assert not difference.why
    return True


@pytest.mark.long
@pytest.mark.newest
@settings(max_examples=80, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_converted_model_computes_the_same(data):
    source = make(data.draw)
    judge(source, data.draw(st.integers(7, 26)))


@pytest.mark.long
@pytest.mark.newest
@settings(max_examples=50, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_an_optimized_model_computes_the_same(data):
    source = make(data.draw)
    try:
        onnx.checker.check_model(source)
        expected = [run(source, condition) for condition in (True, False)]
    except (EngineError, onnx.checker.ValidationError):
        assume(False)
    result = optimize.attempt(source)
    onnx.checker.check_model(result.model)
    for condition, outputs in zip((True, False), expected, strict=True):
        for before, after in zip(outputs, run(result.model, condition), strict=True):
            difference = compare(before, after, result.grade)
            assert not difference.why

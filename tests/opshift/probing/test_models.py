"""Calls of models as cases of one node, and what they add to what is known of a backend."""

import numpy as np
import onnx
import pytest
from opshift.passes.backends.backend import MeasuredCall, Types

from opshift.probing import models, probe
from opshift.probing.worker import Worker
from opshift.verification import adapters
from opshift.verification.engines import OnnxRuntime
from tests.support import model

BODY = "a = Relu(x) b = Relu(a) m = ReduceSum<keepdims=0>(b, k) y = Relu(m)"
HELD = "int64[1] k = {1}"
FLOATS = {"T": Types(frozenset({"tensor(float)"}))}


@pytest.fixture
def folder(tmp_path):
    of = model(BODY, 13, inputs="float[2,3] x", outputs="float[2] y", constants=HELD)
    onnx.save(of, tmp_path / "one.onnx")
    (tmp_path / "broken.onnx").write_text("no model")
    return tmp_path


def test_each_kind_of_call_is_a_case_with_its_values(folder):
    found = list(models.calls(folder))
    assert [(case.op[1], next(iter(case.feeds.values())).ndim) for case in found] == [
        ("Relu", 2),
        ("ReduceSum", 2),
        ("Relu", 1),
    ]
    for case in found:
        np.testing.assert_array_equal(OnnxRuntime(case.model).run(case.feeds)[0], case.expected[0])
    assert [tensor.name for tensor in found[1].model.graph.initializer] == ["k"]


@pytest.mark.long
def test_what_agrees_is_added_to_what_is_known(folder):
    worker = Worker(adapters.KNOWN["onnxruntime"].session)
    known, nothing = probe.Finding(newest=14, called=MeasuredCall((3,), True)), probe.Finding(missing=6)
    try:
        for case in models.calls(folder):
            probe.add(known if case.op[1] == "Relu" else nothing, case, worker)
    finally:
        worker.stop()
    assert (known.newest, known.called) == (14, MeasuredCall((1, 2, 3), True, FLOATS))
    assert (nothing.newest, nothing.missing, nothing.called) == (13, 0, MeasuredCall((2,), False, FLOATS))


def test_a_folder_without_models_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="holds no models"):
        list(models.calls(tmp_path))

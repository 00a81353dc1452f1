"""Whether onnxruntime crashes where it loads a float16 model, told by a process that loads it."""

import subprocess
import sys

import numpy as np
import onnx
import pytest

from opshift.jobs import loading
from opshift.jobs.loading import describe_crash
from opshift.verification import isolation
from opshift.verification.side import Side
from tests.support import model

LOAD = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"
IO = {"inputs": "float[T,2,8] x", "outputs": "float[A,B,C] y"}


def narrow(body):
    made = model(body, 14, **IO)
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(8, dtype=np.float16), "w"))
    return made


@pytest.mark.posix
@pytest.mark.parametrize(
    "body",
    [
        "a = Cast<to = 10>(x) t = Transpose<perm = [1, 0, 2]>(a) m = MatMul(t, w) y = Cast<to = 1>(m)",
        "t = Transpose<perm = [1, 0, 2]>(x) a = Cast<to = 10>(t) m = MatMul(a, w) y = Cast<to = 1>(m)",
    ],
)
def test_a_crash_is_told_where_a_process_of_its_own_crashes(body, tmp_path):
    onnx.save(narrow(body), tmp_path / "half.onnx")
    ended = subprocess.run([sys.executable, "-c", LOAD, str(tmp_path / "half.onnx")], capture_output=True, check=False)
    said = describe_crash(Side(narrow(body)))
    assert bool(said) == (ended.returncode < 0)
    assert not said or said.endswith('; it loads with disabled_optimizers=["FuseFp16InitializerToFp32NodeTransformer"]')


@pytest.mark.parametrize(
    ("crashing", "expected"), [((True, True), ""), ((True, False), "; it loads with"), ((False,), None)]
)
def test_an_optimization_is_named_where_the_model_loads_without_it(monkeypatch, crashing, expected):
    turns = iter(crashing)

    def call(function, *arguments):
        if next(turns):
            raise isolation.Ended(-11)

    monkeypatch.setattr(isolation, "call", call)
    said = describe_crash(Side(narrow("y = Relu(x)")))
    assert (not said) if expected is None else ("with its default optimizations" + expected in said)
    assert bool(said.count("disabled_optimizers")) == bool(expected)


@pytest.mark.parametrize("limit", ["watched", "large", "late"])
def test_nothing_is_said_of_what_was_not_loaded(monkeypatch, limit):
    def call(function, *arguments):
        assert limit == "late"
        raise isolation.Ended(124)

    monkeypatch.setattr(isolation, "call", call)
    if limit == "watched":
        monkeypatch.setattr(isolation, "is_watched", lambda: True)
    elif limit == "large":
        monkeypatch.setattr(loading, "LARGE", 10)
    assert describe_crash(Side(narrow("y = Relu(x)"))) == ""


def test_a_model_that_onnxruntime_refuses_crashes_nothing():
    assert describe_crash(Side(narrow("y = Unknown(x)"))) == ""

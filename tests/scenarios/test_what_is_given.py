"""What Python is given that has no meaning is an error that says what is wanted, before anything is done."""

import numpy as np
import pytest

import opshift
from tests.support import model

MODEL = model("y = Relu(x)", 18, inputs="float[N,2] x", outputs="float[N,2] y")


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"ir_version": "8"}, "the IR version must be a whole number, 3 to 14, not '8'"),
        ({"ir_version": 8.0}, "the IR version must be a whole number, 3 to 14, not 8.0"),
        ({"ir_version": True}, "the IR version must be a whole number, 3 to 14, not True"),
        ({"quantization": 3}, "unknown quantization 3; supported: qdq and qoperator"),
        ({"fix_shape": 3}, "give sizes by name, such as {'batch': 1}, not 3"),
        ({"fix_shape": [("N", 1)]}, "give sizes by name, such as {'batch': 1}, not ('N', 1)"),
        ({"set": 3}, "give values by the names of inputs, such as {'sr': 16000}, not 3"),
    ],
)
def test_of_a_conversion(named, why):
    with pytest.raises(ValueError) as told:  # noqa: PT011
        opshift.convert_version(MODEL, 13, **named)
    assert str(told.value) == why


@pytest.mark.parametrize("ops", [3, [3], ["Relu", None]])
def test_of_names(ops):
    for verb in (opshift.inline, opshift.fold):
        with pytest.raises(ValueError, match="give operators by name, such as 'ReduceL2', not "):
            verb(MODEL, ops)
    with pytest.raises(ValueError, match="the model uses no operator of domain 3; it uses '"):
        opshift.inline(MODEL, domain=3)
    with pytest.raises(ValueError, match="nothing to do: give operators"):
        opshift.inline(MODEL, None)


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"runs": "3"}, "runs must be 1 or more, not '3'"),
        ({"runs": 1.5}, "runs must be 1 or more, not 1.5"),
        ({"seed": "a"}, "seed must be 0 or more, not 'a'"),
        ({"inputs": 3}, "give inputs as a path, as arrays by name, or as a list of those, not 3"),
        ({"engine": 3}, "give engines by name, not 3"),
        ({"rtol": [3]}, "give rtol as a number, or as numbers by the names of outputs, not 3"),
        ({"val_range": 3}, "give ranges by the names of inputs, such as {'x': (0, 1)}, not 3"),
        ({"val_range": {"x": (0,)}}, "the range of 'x' must be two numbers, the least and the largest, not (0,)"),
        (
            {"val_range": {"x": ("a", 1)}},
            "the range of 'x' must be two numbers, the least and the largest, not ('a', 1)",
        ),
        ({"val_range": {"x": 3}}, "the range of 'x' must be two numbers, the least and the largest, not 3"),
    ],
)
def test_of_a_verification(named, why):
    with pytest.raises(ValueError) as told:  # noqa: PT011
        opshift.verify(MODEL, MODEL, **named)
    assert str(told.value) == why


def test_numbers_of_numpy_are_numbers():
    assert opshift.verify(MODEL, MODEL, runs=np.int64(1), seed=np.int32(3), val_range={"x": np.array([0, 1])}).runs == 1
    assert opshift.convert_version(MODEL, np.int64(13), ir_version=np.int64(8)).ir_version == 8


def test_the_smallest_models_that_differ_go_to_no_file(tmp_path):
    (tmp_path / "there").write_bytes(b"mine")
    with pytest.raises(ValueError, match="there is a file; give a new folder"):
        opshift.verify(MODEL, MODEL, repro=tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == b"mine"


def test_what_runs_a_model_is_a_function():
    with pytest.raises(
        ValueError, match="run must be a function that takes the bytes of a model and its inputs by name, not 3"
    ):
        opshift.try_in(MODEL, run=3)


def test_no_name_is_no_file():
    with pytest.raises(opshift.InvalidModel, match="'' names no file"):
        opshift.optimize("")


@pytest.mark.parametrize("threshold", [-1, "a", None])
def test_a_threshold_is_a_number(threshold, tmp_path):
    with pytest.raises(ValueError, match=f"threshold must be 0 or more, not {threshold!r}"):
        opshift.convert_files([tmp_path / "in.onnx"], tmp_path / "out", 13, threshold=threshold)
    with pytest.raises(ValueError, match="unknown external_data 'x'; supported: keep, copy, all, none"):
        opshift.convert_files([tmp_path / "in.onnx"], tmp_path / "out", 13, external_data="x")

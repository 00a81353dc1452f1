"""LabelEncoder lowered: keys of every type, found by comparison, by halves or as places."""

import numpy as np
import onnx.numpy_helper
import pytest
from onnx import TensorProto as T

from tests.passes.operators.shared.classical.calls import check, run_lowered, why_refused

pytestmark = pytest.mark.newest  # older kernels of classical models differ

WORDS = np.array([["a", "b", ""], ["z", "a", "B"]], object)
NUMBERS = np.array([[0, 1, 2], [7, -1, 2**40]])
FLOATS = np.array([[0.0, -0.0, 1.5], [np.nan, np.inf, -7]], np.float32)
EVERY = (9, 11, 13, 17, 19, 21)  # below 19 TfIdfVectorizer finds strings


def tensor(values, dtype):
    return onnx.numpy_helper.from_array(np.array(values, dtype))


@pytest.mark.parametrize("version", [2, 4])
def test_pairs(version):
    check("LabelEncoder", [WORDS], version=version, keys_strings=["a", ""], values_floats=[1.5, 2.5], opsets=EVERY)
    check(
        "LabelEncoder",
        [WORDS],
        version=version,
        keys_strings=["a"],
        values_strings=["x"],
        default_string="-",
        opsets=EVERY,
    )
    check("LabelEncoder", [NUMBERS], version=version, keys_int64s=[2, 0, 1], values_strings=["x", "y", "z"])
    check("LabelEncoder", [NUMBERS], version=version, keys_int64s=[7, 2**40], values_int64s=[1, 2], default_int64=5)
    check("LabelEncoder", [NUMBERS], version=version, keys_int64s=[7, 2], values_floats=[1.0, 2.0], default_float=5.0)
    check("LabelEncoder", [FLOATS], version=version, keys_floats=[0.0, 1.5, np.inf], values_int64s=[1, 2, 3])
    check("LabelEncoder", [FLOATS], version=version, keys_floats=[np.nan, -7.0], values_strings=["n", "m"])
    check("LabelEncoder", [np.array(7)], version=version, keys_int64s=[7], values_int64s=[1])


def test_tensors_of_other_types():
    check(
        "LabelEncoder", [FLOATS.astype(np.float64)], version=4, keys_tensor=tensor([1.5, np.nan], np.float64),
        values_tensor=tensor([7, 8], np.int64), default_tensor=tensor([9], np.int64),
    )  # fmt: skip
    check(
        "LabelEncoder", [WORDS], version=4, keys_strings=["a", "b"], values_tensor=tensor([7, 8], np.int16),
        default_tensor=tensor([9], np.int16),
    )  # fmt: skip
    (found,) = run_lowered(
        "LabelEncoder", [np.array([3, 5], np.int16)], [(T.DOUBLE, 1)], version=4, keys_tensor=tensor([5, 300], np.int16),
        values_tensor=tensor([0.5, 1.5], np.float64), default_tensor=tensor([9], np.float64),
    )  # fmt: skip
    assert found.tolist() == [9, 0.5]


@pytest.mark.parametrize("kind", [np.int64, np.float32])
def test_many_keys_are_searched_by_halves(kind):
    rng = np.random.default_rng(0)
    keys = rng.permutation(5000)[:700].astype(kind)
    values = [int(v) for v in rng.permutation(700)]
    named = {"keys_int64s": keys.tolist()} if kind is np.int64 else {"keys_floats": [*keys.tolist()[:-1], float("nan")]}
    x = rng.integers(-5, 5005, (30, 20)).astype(kind)
    if kind is np.float32:
        x[0, :4] = [np.nan, np.inf, -np.inf, 0.5]
    check("LabelEncoder", [x], version=4, values_int64s=values, **named)


def test_version_1():
    check("LabelEncoder", [WORDS], classes_strings=["a", "b", "a"], default_int64=7, opsets=EVERY)
    check("LabelEncoder", [NUMBERS], classes_strings=["a", "b", "a"], default_string="?")


def test_a_repeated_key_is_refused_if_its_values_differ():
    check("LabelEncoder", [NUMBERS], version=4, keys_int64s=[7, 7], values_int64s=[1, 1])
    why = why_refused("LabelEncoder", [NUMBERS], [(T.INT64, 2)], version=4, keys_int64s=[7, 7], values_int64s=[1, 2])
    assert "key 7 is repeated" in why


def test_keys_without_values_are_no_model():
    why = why_refused("LabelEncoder", [NUMBERS], [(T.INT64, 2)], version=4, keys_int64s=[7], values_int64s=[1, 2])
    assert "1 keys for 2 values" in why

"""CategoryMapper as a table."""

import numpy as np
from onnx import TensorProto as T

from tests.passes.operators.shared.classical.calls import check, why_refused

WORDS = np.array([["a", "b", ""], ["z", "a", "B"]], object)
NUMBERS = np.array([[5, 6, 7], [-1, 5, 2**40]])
EVERY = (9, 11, 13, 17, 19, 21)  # below 19 TfIdfVectorizer finds strings


def test_strings_become_numbers():
    check("CategoryMapper", [WORDS], cats_strings=["a", "b", ""], cats_int64s=[5, -7, 2**40], opsets=EVERY)
    check(
        "CategoryMapper", [WORDS[0]], cats_strings=["a", "b", "a"], cats_int64s=[5, 6, 7], default_int64=9, opsets=EVERY
    )


def test_numbers_become_strings():
    check("CategoryMapper", [NUMBERS], cats_strings=["a", "b", "c"], cats_int64s=[5, 6, 2**40])
    check("CategoryMapper", [NUMBERS], cats_strings=["a", "b"], cats_int64s=[0, 5], default_string="?")


def test_lists_of_other_lengths_are_no_model():
    why = why_refused("CategoryMapper", [WORDS], [(T.INT64, 2)], cats_strings=["a"], cats_int64s=[1, 2])
    assert "1 cats_strings for 2 cats_int64s" in why

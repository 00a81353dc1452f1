"""IsNaN and IsInf before they existed, and the types that came to them."""

import numpy as np
import pytest

from tests.support import check, check_down, check_refused, check_unchanged

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("elem_type", ["float", "double", "float16"])
def test_isnan_compares_below_9(elem_type):
    check_down("y = IsNaN(x)", 9, 8, 7, inputs=f"{elem_type}[12] x", outputs="bool[12] y")


@pytest.mark.parametrize("negative", [0, 1])
@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("elem_type", ["float", "double"])
def test_isinf_compares_below_10(elem_type, positive, negative):
    body = f"y = IsInf<detect_positive={positive}, detect_negative={negative}>(x)"
    largest = np.finfo(np.float32 if elem_type == "float" else np.float64)
    x = np.array([0, INF, -INF, NAN, largest.max, largest.min], largest.dtype)
    check_down(body, 10, 9, 7, feeds={"x": x}, inputs=f"{elem_type}[6] x", outputs="bool[6] y")


@pytest.mark.parametrize(
    ("op", "elem_type"),
    [
        ("IsInf", "float16"),
        ("IsInf", "bfloat16"),
        ("IsInf", "float8e5m2"),
        ("IsInf", "float8e4m3fn"),
        ("IsNaN", "float8e5m2"),
        ("IsNaN", "float8e4m3fnuz"),
    ],
)
def test_what_is_infinite_is_asked_of_floats_below_20(op, elem_type):
    after = f"t1 = Cast<to=1>(x)\ny = {op}(t1)"
    check(f"y = {op}(x)", 20, after, 19, inputs=f"{elem_type}[12] x", outputs="bool[12] y")


def test_what_is_infinite_is_asked_as_before():
    check_unchanged("y = IsInf(x)", 28, 10, inputs="double[3] x", outputs="bool[3] y")
    check_unchanged("y = IsNaN(x)", 28, 13, inputs="bfloat16[3] x", outputs="bool[3] y")
    check_refused("y = IsNaN(x)", 13, 12, "bfloat16", inputs="bfloat16[3] x", outputs="bool[3] y")

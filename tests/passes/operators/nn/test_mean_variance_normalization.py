"""MeanVarianceNormalization before it existed, and its axes written out."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_computes, check_down, check_unchanged, model, show


def test_default_axes_are_written_out_for_the_definition_of_13():
    io = {"inputs": "float[N,2,3,3] x", "outputs": "float[N,2,3,3] y"}
    check(
        "y = MeanVarianceNormalization(x)", 9, "y = MeanVarianceNormalization<axes=[0, 2, 3]>(x)", 13,
        rtol=1e-6, **io,
    )  # fmt: skip
    check_unchanged("y = MeanVarianceNormalization<axes=[1]>(x)", 9, 28, **io)
    check_unchanged("y = MeanVarianceNormalization(x)", 13, 9, **io)


RNG = np.random.default_rng(0)


@pytest.mark.parametrize("axes", [None, [0, 2, 3], [1], [0, -1]])
def test_mean_and_variance(axes):
    x = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32)
    x[:, 2] = 7.0  # without any variance
    over = tuple(axes or [0, 2, 3])
    wide = x.astype(np.float64)
    centered = wide - wide.mean(axis=over, keepdims=True)
    expected = centered / (np.sqrt((centered**2).mean(axis=over, keepdims=True)) + 1e-9)
    attribute = f"<axes={axes}>" if axes else ""
    check_computes(
        f"y = MeanVarianceNormalization{attribute}(x)", 13, 8, expected.astype(np.float32), feeds={"x": x}, grade="close",
        rtol=1e-5, atol=1e-6, inputs="float[2,3,4,5] x", outputs="float[2,3,4,5] y",
    )  # fmt: skip


def test_why_it_is_close_is_said():
    source = model("y = MeanVarianceNormalization(x)", 9, inputs="float[N,2,3,3] x", outputs="float[N,2,3,3] y")
    (change,) = convert.attempt(source, {"": 8}).changes
    assert (change.grade, change.remark) == ("close", "the operator is computed from its definition")


def test_negative_axes_are_counted_from_the_front():
    io = {"inputs": "float[2,3,4] x", "outputs": "float[2,3,4] y"}
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    for axes in ("[0, -1]", "[0, 2]"):
        made = check_down(
            f"y = MeanVarianceNormalization<axes={axes}>(x)",
            13,
            8,
            grade="close",
            feeds={"x": x},
            rtol=1e-5,
            atol=1e-6,
            **io,
        )
        assert show(made).count("ReduceMean<axes=[0, 2]>") == 2

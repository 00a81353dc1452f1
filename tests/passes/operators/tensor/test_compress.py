"""Compress along a negative axis, and before it existed."""

import numpy as np
import pytest

from tests.support import check, check_down, check_refused, check_unchanged


def test_compress_along_a_negative_axis():
    io = {"inputs": "float[N,3] x, bool[2] c", "outputs": "float[N,D] y"}
    check("y = Compress<axis=-1>(x, c)", 11, "y = Compress<axis=1>(x, c)", 10, **io)
    check_unchanged("y = Compress(x, c)", 11, 9, inputs="float[N,3] x, bool[2] c", outputs="float[D] y")


def test_compress_below_9():
    io = {"inputs": "float[2,3] x", "outputs": "float[2,A] y", "constants": "bool[2] c = {0, 1}"}
    check("y = Compress<axis=1>(x, c)", 9, "y = Gather<axis=1>(x, const)", 8, **io)
    io = {"inputs": "float[2,3] x", "outputs": "float[A] y", "constants": "bool[5] c = {0, 1, 0, 0, 1}"}
    check_down("y = Compress(x, c)", 9, 8, 7, **io)


CHOICES = [[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1], [1], [0, 1], []]


@pytest.mark.parametrize("kind", ["float", "string", "int8"])
@pytest.mark.parametrize("chosen", CHOICES)
@pytest.mark.parametrize("known", [True, False])
def test_compress_by_a_run_time_condition_below_9(kind, chosen, known):
    size = len(chosen) if known else "C"
    feeds = {"c": np.array(chosen, bool)}
    along = [("<axis=1>", "2,4"), ("<axis=-2>", "4,2")] if kind != "string" else []  # onnxruntime gathers half of them
    for axis, shape in (*along, ("", "2,3")):
        out = "A,B" if axis else "A"
        io = {"inputs": f"{kind}[{shape}] x, bool[{size}] c", "outputs": f"{kind}[{out}] y"}
        check_down(f"y = Compress{axis}(x, c)", 11, 8, 7, feeds=feeds, **io)


def test_a_condition_that_is_no_vector_is_refused():
    io = {"inputs": "float[1] x", "outputs": "float[A] y", "constants": "bool c = {0}"}
    check_refused("y = Compress(x, c)", 9, 8, "Compress gets a condition of shape []; supported: a vector", **io)

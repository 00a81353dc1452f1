"""Mod as a division: the sign of the result, the ends of the types, and remainders of floats bit by bit."""

import numpy as np
import pytest

from tests.support import check, check_computes, check_refused, evaluate

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("kind", INTEGERS)
def test_integers(kind, fmod):
    ends = np.iinfo(kind)
    column = np.array([0, 1, 7, 8, 100, ends.max, ends.min, ends.max - 1], object).astype(kind)
    column = np.concatenate([column, -column[1:5]]) if kind[0] == "i" else column
    a, b = column[:, None], np.array([3, 7, 1, ends.max] + ([-3, -7] if kind[0] == "i" else []), object).astype(kind)
    check_computes(
        f"y = Mod<fmod={fmod}>(a, b)", 10, 9, (np.fmod if fmod else np.mod)(a, b), feeds={"a": a, "b": b},
        inputs=f"{kind}[{len(a)},1] a, {kind}[{len(b)}] b", outputs=f"{kind}[{len(a)},{len(b)}] y",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["float", "float16"])
def test_floats_are_exact(kind):
    dtype = np.float32 if kind == "float" else np.float16
    limits = np.finfo(dtype)
    special = [
        0.0,
        5.3,
        -5.3,
        1e-3,
        7.0,
        -21.0,
        limits.max,
        limits.smallest_subnormal,
        -limits.tiny,
        np.inf,
        -np.inf,
        np.nan,
    ]
    rng = np.random.default_rng(0)
    scattered = rng.normal(size=40) * 10.0 ** rng.uniform(
        -30 if kind == "float" else -4, 30 if kind == "float" else 4, 40
    )
    values = np.concatenate([special, scattered]).astype(dtype)
    a, b = values[:, None], values
    with np.errstate(all="ignore"):
        expected = np.fmod(a, b)
    n = len(values)
    made = check_computes(
        "y = Mod<fmod=1>(a, b)", 10, 9, expected, feeds={"a": a, "b": b},
        inputs=f"{kind}[{n},1] a, {kind}[{n}] b", outputs=f"{kind}[{n},{n}] y",
    )  # fmt: skip
    six = {"a": np.full((n, 1), -6, dtype), "b": np.full(n, 3, dtype)}
    assert np.signbit(evaluate(made, six)[0]).all()
    assert sum(node.op_type == "Floor" for node in made.graph.node) == (10 if kind == "float" else 2)


def test_unsigned_needs_no_correction():
    check(
        "y = Mod(a, b)", 13, "t1 = Div(a, b)\nt2 = Mul(t1, b)\ny = Sub(a, t2)", 9,
        inputs="uint32[3] a, uint32[3] b", outputs="uint32[3] y", feeds={"b": np.array([3, 2, 5], np.uint32)},
    )  # fmt: skip


def test_double_is_refused():
    check_refused(
        "y = Mod<fmod=1>(a, b)", 10, 9, "the remainder of double; that of float and float16 could be expressed",
        inputs="double[3] a, double[3] b", outputs="double[3] y",
    )  # fmt: skip

"""Mod as a division: the sign of the result, the ends of the types, and remainders of floats bit by bit."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from opshift.verification import engines
from tests.passes.operators.elements import array
from tests.support import SPECIAL, check, check_computes, check_refused, check_unchanged, evaluate, model

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("kind", INTEGERS)
def test_integers(kind, fmod):
    ends = np.iinfo(kind)
    column = np.array([0, 1, 7, 8, 100, ends.max, ends.min, ends.max - 1], object).astype(kind)
    column = np.concatenate([column, -column[1:5]]) if kind[0] == "i" else column
    a, b = (
        column[:, None],
        np.array([3, 7, 1, ends.max] + ([-3, -7, -1, ends.min] if kind[0] == "i" else []), object).astype(kind),
    )
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


@pytest.mark.parametrize(("divisor", "guarded"), [([3, 2], False), ([3, -1], True), (None, True)])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_no_quotient_of_the_least_integer_overflows(kind, divisor, guarded):
    """onnxruntime ends the process at that of int64, and the text says nothing of it."""
    name, least = np.dtype(kind).name, np.iinfo(kind).min
    held = {} if divisor is None else {"constants": f"{name}[2] b = {{{divisor[0]}, {divisor[1]}}}"}
    feeds = {"a": np.array([least, least], kind)} | ({"b": np.array([-1, 3], kind)} if divisor is None else {})
    made = check_computes(
        "y = Mod(a, b)", 10, 9, np.mod(feeds["a"], kind(divisor or [-1, 3])), feeds=feeds,
        inputs=f"{name}[2] a" + (f", {name}[2] b" if divisor is None else ""), outputs=f"{name}[2] y", **held,
    )  # fmt: skip
    assert sum(node.op_type == "Where" for node in made.graph.node) == (2 if guarded else 1)


def doubles():
    limits = np.finfo(np.float64)
    ends = [limits.max, -limits.max, limits.smallest_subnormal, 3 * limits.smallest_subnormal, -limits.tiny, limits.eps]
    special = [0.0, -0.0, 5.3, -5.3, 1e-3, 7.0, -21.0, 2.0**53 + 2, np.inf, -np.inf, np.nan]
    rng = np.random.default_rng(0)
    return np.concatenate([special, ends, rng.normal(size=24) * 10.0 ** rng.uniform(-290, 290, 24)])


@pytest.mark.parametrize("target", [9, 8, pytest.param(7, marks=pytest.mark.long)])
def test_doubles_are_exact(target):
    values = doubles()
    a, b, n = values[:, None], values, len(values)
    with np.errstate(all="ignore"):
        expected = np.fmod(a, b)
    made = check_computes(
        "y = Mod<fmod=1>(a, b)", 10, target, expected, feeds={"a": a, "b": b},
        inputs=f"double[{n},1] a, double[{n}] b", outputs=f"double[{n},{n}] y",
    )  # fmt: skip
    actual = evaluate(made, {"a": a, "b": b})[0]
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[number]), np.signbit(expected[number]))


@pytest.mark.parametrize(("a", "b"), [((), ()), ((3,), (2, 1)), ((0,), (1,)), ((2, 1), ())])
def test_shapes_of_doubles_are_broadcast(a, b):
    feeds = {"a": np.full(a, -7.5), "b": np.full(b, 2.0)}
    dims = ["[" + ",".join(["N"] * len(shape)) + "]" if shape else "" for shape in (a, b, np.broadcast_shapes(a, b))]
    dims = [text.replace("N", chr(65 + k)) for k, text in enumerate(dims)]
    check_computes(
        "y = Mod<fmod=1>(a, b)", 10, 9, np.fmod(feeds["a"], feeds["b"]), feeds=feeds,
        inputs=f"double{dims[0]} a, double{dims[1]} b", outputs=f"double{dims[2]} y",
    )  # fmt: skip


def test_the_sign_of_zero_is_that_of_the_dividend():
    made = check_computes(
        "y = Mod<fmod=1>(a, b)", 10, 9, np.zeros(2, np.float32),
        feeds={"a": np.float32([-0.0, 0.0]), "b": np.float32([3, -3])},
        inputs="float[2] a, float[2] b", outputs="float[2] y",
    )  # fmt: skip
    assert np.signbit(evaluate(made, {"a": np.float32([-0.0, 0.0]), "b": np.float32([3, -3])})[0]).tolist() == [1, 0]


def test_floor_mod_of_floats_is_refused_where_only_integers_had_it():
    io = {"inputs": "float[3] a, float[3] b", "outputs": "float[3] y"}
    check_refused("y = Mod(a, b)", 10, 9, "floats without fmod=1; supported: integers, or floats with fmod=1", **io)


def test_a_loop_that_only_its_body_ends_runs_in_every_engine():
    source = model("y = Mod(a, b)", 28, inputs="double[6] a, double[6] b", outputs="double[6] y")
    after = convert.attempt(source, {"": 28}, ops=[("", "Mod")]).model
    a = np.array([-4.3, 7.2, 5.0, 4.3, -7.2, 8.0])
    b = np.array([2.1, -3.4, 8.0, -2.1, 3.4, 5.0])
    np.testing.assert_array_equal(engines.Reference(after).run({"a": a, "b": b})[0], np.mod(a, b))


SIGNS = [[x, y] for x in [*SPECIAL, 5.5, -5.5] for y in [2.0, -2.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 0.3]]
IO = {"inputs": "{0}[112] a, {0}[112] b", "outputs": "{0}[112] y"}


@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_remainders_of_floats_take_the_sign_of_the_divisor_below_28(kind):
    made = convert.attempt(model("y = Mod(a, b)", 28, **{k: v.format(kind) for k, v in IO.items()}), {"": 26})
    assert made.grade == "exact"
    a, b = array(kind, SIGNS).T
    (y,) = evaluate(made.model, {"a": a, "b": b})
    with np.errstate(all="ignore"):
        expected = np.mod(a, b)
    expected[(b == 0) | np.isinf(a)] = np.nan
    np.testing.assert_array_equal(y, expected)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(y[zeros]), np.signbit(b[zeros]))


def test_other_remainders_stay():
    floats = {k: v.format("float") for k, v in IO.items()}
    integers = {k: v.format("int16") for k, v in IO.items()}
    check_unchanged("y = Mod<fmod=1>(a, b)", 28, 10, **floats)
    check_unchanged("y = Mod(a, b)", 28, 10, **integers)
    check_unchanged("y = Mod<fmod=1>(a, b)", 10, 28, **integers)

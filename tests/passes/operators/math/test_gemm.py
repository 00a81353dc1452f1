"""Gemm: what its addend is broadcast to, integers, and no addend."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators import legacy
from tests.passes.operators.elements import array
from tests.support import check, check_refused, check_unchanged, evaluate, model, show

ADDEND = {"inputs": "float[2,3] a, float[3,4] b, float[{}] c", "outputs": "float[2,4] y"}


def factors():
    rng = np.random.default_rng(1)
    return {name: rng.integers(1, 4, shape).astype(np.float32) for name, shape in (("a", (2, 3)), ("b", (3, 4)))}


def with_addend(c):
    return {key: text.format(c).replace("[]", "") for key, text in ADDEND.items()}


@pytest.mark.parametrize(("c", "after"), [
    ((2, 4), "y = Gemm<beta=0.5>(a, b, c)"), ((4,), "y = Gemm<beta=0.5, broadcast=1>(a, b, c)"),
    ((), "y = Gemm<beta=0.5, broadcast=1>(a, b, c)"), ((1, 1), "y = Gemm<beta=0.5, broadcast=1>(a, b, c)"),
    ((1, 4), "t1 = Squeeze<axes=[0]>(c)\ny = Gemm<beta=0.5, broadcast=1>(a, b, t1)"),
    ((2, 1), "t1 = Tile(c, const)\ny = Gemm<beta=0.5>(a, b, t1)"),
])  # fmt: skip
def test_an_addend_is_broadcast_on_request_below_7(c, after):
    source = model("y = Gemm<beta=0.5>(a, b, c)", 7, **with_addend(",".join(map(str, c))))
    made = convert.attempt(source, {"": 6}).model
    assert show(made) == after
    feeds = {**factors(), "c": np.arange(np.prod(c, dtype=int), dtype=np.float32).reshape(c)}
    np.testing.assert_array_equal(legacy.run(made, feeds)[0], evaluate(source, feeds)[0])
    back = convert.attempt(made, {"": 7}).model
    np.testing.assert_array_equal(evaluate(back, feeds)[0], evaluate(source, feeds)[0])


def test_symbolic_addends_below_7():
    io = {"inputs": "float[3,N] a, float[3,4] b, float[{}] c", "outputs": "float[N,4] y"}
    whole = {**io, "inputs": io["inputs"].format("N,4")}
    check_unchanged("y = Gemm<transA=1>(a, b, c)", 7, 6, **whole)
    check_refused("y = Gemm<transA=1>(a, b, c)", 7, 6, "[M, 4]", **{**io, "inputs": io["inputs"].format("M,4")})


GEMM = {"inputs": "{0}[2,3] a, {0}[3,4] b, {0}[4] c", "outputs": "{0}[2,4] y"}


def gemm(kind):
    return {key: text.format(kind) for key, text in GEMM.items()}


@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_a_missing_addend_is_written_out_below_11(kind):
    zero = {"float": "", "double": "float64:", "float16": "float16:"}[kind] + "-0.0"
    io = {**gemm(kind), "inputs": f"{kind}[2,3] a, {kind}[3,4] b"}
    feeds = {"a": array(kind, [[0, 1, 2], [-3, 4, 0.5]]), "b": array(kind, -np.eye(3, 4))}
    for beta in ("", "<beta=0.5>", "<beta=-2.0>"):
        made = check(f"y = Gemm{beta}(a, b)", 11, f"y = Gemm(a, b, {zero})", 10, feeds=feeds, **io)
    source = model("y = Gemm(a, b)", 11, **io)
    np.testing.assert_array_equal(*(np.signbit(evaluate(m, feeds)[0]) for m in (source, made)))


def test_an_addend_stays():
    check_unchanged("y = Gemm<beta=0.5>(a, b, c)", 28, 7, **gemm("float"))
    check_unchanged("y = Gemm<beta=0.5>(a, b, c)", 7, 28, **gemm("float"))
    check_unchanged("y = Gemm(a, b)", 11, 28, **{**gemm("float"), "inputs": "float[2,3] a, float[3,4] b"})


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_gemm_of_integers_is_written_out_below_9(kind):
    made = convert.attempt(
        model(
            "y = Gemm<transA=1, alpha=2.0, beta=-3.0>(a, b, c)",
            9,
            **{**gemm(kind), "inputs": gemm(kind)["inputs"].replace("2,3", "3,2")},
        ),
        {"": 8},
    )
    assert [n.op_type for n in made.model.graph.node] == [
        "Transpose",
        "Unsqueeze",
        "Unsqueeze",
        "Mul",
        "ReduceSum",
        "Mul",
        "Mul",
        "Add",
    ]
    assert made.grade == "exact"
    a, b, c = (
        np.array([[1, 2], [3, 4], [5, -6]], kind),
        np.arange(12, dtype=kind).reshape(3, 4),
        np.array([1, 2, 3, 4], kind),
    )
    np.testing.assert_array_equal(evaluate(made.model, {"a": a, "b": b, "c": c})[0], 2 * a.T @ b - 3 * c)


def test_gemm_of_integers_with_fractions_is_refused_below_9():
    check_refused("y = Gemm<alpha=0.5>(a, b, c)", 9, 8, "alpha=0.5", **gemm("int32"))
    check_refused("y = Gemm<beta=-1.0>(a, b, c)", 9, 8, "beta=-1", **gemm("uint32"))


def test_gemm_of_integers_without_addend():
    made = convert.attempt(
        model("y = Gemm(a, b)", 11, **{**gemm("int64"), "inputs": "int64[2,3] a, int64[3,4] b"}), {"": 8}
    ).model
    a, b = np.array([[1, 2, 3], [4, 5, 2**40]]), np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(evaluate(made, {"a": a, "b": b})[0], a @ b)

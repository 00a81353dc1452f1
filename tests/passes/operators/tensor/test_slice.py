"""Slice: bounds that moved from attributes to inputs."""

import itertools

import numpy as np
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import OnnxRuntime
from tests.support import check, check_down, check_refused, check_unchanged, check_values, evaluate, model

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
ROWS = {"inputs": "float[N,3] x", "outputs": "float[M,3] y"}


def bounds(**values):
    return ", ".join(f"int64[{len(v)}] {name} = {{{', '.join(map(str, v))}}}" for name, v in values.items())


def test_bounds_become_inputs_at_10():
    check("y = Slice<starts=[1], ends=[-1]>(x)", 9, "y = Slice(x, [1], [-1], [0])", 10, **ROWS)
    check(
        "y = Slice<axes=[1], starts=[1], ends=[9223372036854775807]>(x)",
        9,
        "y = Slice(x, [1], [9223372036854775807], [1])",
        10,
        inputs="float[N,3] x",
        outputs="float[N,2] y",
    )


def test_constant_bounds_become_attributes_below_10():
    held = bounds(s=[1, 0], e=[INT64_MAX, -1])
    check(
        "y = Slice(x, s, e)",
        10,
        f"y = Slice<ends=[{INT64_MAX}, -1], starts=[1, 0]>(x)",
        9,
        constants=held,
        inputs="float[N,3] x",
        outputs="float[M,2] y",
    )
    held = bounds(s=[1], e=[-1], a=[0], t=[1])
    check(
        "y = Slice(x, s, e, a, t)",
        10,
        "y = Slice<axes=[0], ends=[-1], starts=[1]>(x)",
        9,
        constants=held,
        **ROWS,
    )


def test_negative_axes_are_counted_from_the_front_below_11():
    held = bounds(s=[0], e=[2], a=[-2])
    check("y = Slice(x, s, e, a)", 11, "y = Slice(x, [0], [2], [0])", 10, constants=held, **ROWS)
    check_unchanged("y = Slice(x, s, e)", 28, 10, constants=bounds(s=[0], e=[2]), **ROWS)
    counted = """t1 = Shape(x)
        t2 = Size(t1)
        t3 = Cast<to=6>(t2)
        t4 = Cast<to=1>(a)
        t5 = Less(t4, 0.0)
        t6 = Cast<to=6>(t5)
        t7 = Mul(t6, t3)
        t8 = Add(a, t7)
        y = Slice(x, b, b, t8)"""
    check(
        "y = Slice(x, b, b, a)",
        11,
        counted,
        10,
        inputs="float[N,3] x, int32[1] a, int32[1] b",
        outputs="float[M,L] y",
        feeds={"a": np.array([-2], np.int32)},
    )


def test_bounds_known_at_run_time_hold_for_the_axes_that_are_listed():
    io = {"inputs": "float[2,4] x, int64[1] s, int64[1] e", "outputs": "float[A,B] y", "constants": "int64[1] a = {1}"}
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4), "s": np.array([1]), "e": np.array([3])}
    check_down("y = Slice(x, s, e, a)", 10, 9, feeds=feeds, **io)


@pytest.mark.parametrize("opset", [10, 11])
@pytest.mark.parametrize("axes", [[-1, 0], [0, -1], [1], [-2]])
def test_axes_known_at_run_time_may_be_counted_from_the_end(opset, axes):
    inputs = "float[2,4] x, int64[K] s, int64[K] e, int64[K] a, int64[K] t"
    given = {"s": [1, 0], "e": [-100, 1], "a": axes, "t": [-1, 1]}
    feeds = {name: np.array(values[: len(axes)]) for name, values in given.items()}
    feeds["x"] = np.arange(8, dtype=np.float32).reshape(2, 4)
    check_down("y = Slice(x, s, e, a, t)", opset, 9, feeds=feeds, inputs=inputs, outputs="float[A,B] y")


def test_steps_along_a_known_size_become_indices_below_10():
    held = bounds(s=[-1, 0], e=[INT64_MIN, 9], a=[1, 0], t=[-2, 2])
    check(
        "y = Slice(x, s, e, a, t)",
        10,
        "t1 = Gather<axis=1>(x, [4, 2, 0])\ny = Gather<axis=0>(t1, [0, 2])",
        9,
        inputs="float[3,5] x",
        outputs="float[2,3] y",
        constants=held,
    )


STARTS = ENDS = [INT64_MIN, -7, -5, -1, 0, 2, 5, 9, INT64_MAX]
STEPS = [1, 2, -1, -3, 7, INT64_MAX, -INT64_MAX]


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("axes", ["", "a"])
def test_bounds_known_at_run_time_become_indices_below_10(size, axes):
    """The chain of helpers is too long to spell out; the values are those of the text of Slice."""
    io = {"inputs": "float[N] x, int64[1] s, int64[1] e, int64[1] a, int64[1] t", "outputs": "float[M] y"}
    after = convert.attempt(model(f"y = Slice(x, s, e, {axes}, t)", 10, **io), {"": 9}).model
    session = OnnxRuntime(after)
    x = np.arange(size, dtype=np.float32)
    for start, end, step in itertools.product(STARTS, ENDS, STEPS):
        bound = {"s": [start], "e": [end], "a": [0], "t": [step]}
        feeds = {"x": x, **{name: np.array(value) for name, value in bound.items()}}
        np.testing.assert_array_equal(session.run(feeds)[0], x[sliced(start, end, step, size)], f"{start}:{end}:{step}")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("start", "end"), [(0, 5), (-1, INT64_MIN), (9, -7), (-3, -1)])
def test_constant_steps_along_a_size_known_at_run_time(start, end, step):
    held = bounds(s=[start], e=[end], a=[0], t=[step])
    source = model("y = Slice(x, s, e, a, t)", 10, inputs="float[N] x", outputs="float[M] y", constants=held)
    after = convert.attempt(source, {"": 9 if step != 1 else 10}).model
    for size in (0, 1, 5):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(evaluate(after, {"x": x})[0], x[sliced(start, end, step, size)])


def sliced(start, end, step, size):
    """The indices by the text: add the size to what is negative, clamp, count."""
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = min(max(start, 0), high), min(max(end, low), high)
    return list(range(start, end, step))


def test_several_bounds_of_which_some_are_constant():
    source = model(
        "y = Slice(x, s, e, a, t)",
        10,
        inputs="float[N,4] x, int64[2] s",
        outputs="float[A,B] y",
        constants="int32[2] a = {1, 0}, int64[2] e = {-1, -4}, int64[2] t = {1, -1}",
    )
    after = convert.attempt(source, {"": 9})
    assert not after.refusals
    check_values(source, after.model, {"s": np.array([1, 2])}, rtol=0, atol=0)


def test_a_backward_slice_to_the_greatest_integer_is_refused():
    held = bounds(s=[-1], e=[INT64_MAX], a=[0], t=[-1])
    check_refused(
        "y = Slice(x, s, e, a, t)",
        10,
        9,
        "the backward slice has end 9223372036854775807",
        constants=held,
        **ROWS,
    )


@pytest.mark.parametrize("body", ["y = Slice(x, s, e, a)", "y = Slice(x, s, e, a, s)", "y = Slice(x, r, e, a)"])
def test_bounds_of_other_lengths_are_refused(body):
    held = bounds(s=[2, 1], e=[0], a=[0, 1])
    check_refused(
        body,
        10,
        9,
        "have different lengths: 1 and 2",
        constants=held,
        inputs="float[N,3] x, int64[2] r",
        outputs="float[M,K] y",
    )


@pytest.mark.parametrize("target", [9, 7])
@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("y = Slice(x, s, e)", "int64[k] s, int64[m] e"),
        ("y = Slice(x, s, e, , p)", "int64[k] s, int64[m] e, int64[n] p"),
    ],
)
def test_bounds_of_a_number_known_at_run_time_are_those_of_the_first_axes(body, inputs, length, target):
    io = {"inputs": f"float[4,3,5] x, {inputs}", "outputs": "float[a,b,c] y"}
    if target == 7 and "p" in inputs:
        target = 8
    source = model(body, 13, **io)
    made = convert.attempt(source, {"": target}).model
    given = {"s": [1, -3, 0], "e": [3, 3, -1], "p": [1, 2, 2]}
    check_values(source, made, {name: np.array(values[:length]) for name, values in given.items()}, rtol=0, atol=0)


def test_bounds_told_by_the_length_of_one_of_them():
    io = {"inputs": "float[4,3,5] x, int64[k] s", "outputs": "float[a,b,c] y"}
    source = model("y = Slice(x, s, e)", 13, constants=bounds(e=[3]), **io)
    made = convert.attempt(source, {"": 9}).model
    assert [n.op_type for n in made.graph.node].count("Gather") == 2  # the start, and one axis
    check_values(source, made, {"s": np.array([1])}, rtol=0, atol=0)


@pytest.mark.parametrize("dims", ["3", "N"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("start", "step"), [(2, INT64_MIN), (-1, INT64_MIN), (INT64_MAX, -INT64_MAX), (INT64_MIN, INT64_MAX)]
)
def test_steps_that_have_no_negative(start, step, known, dims):
    values = {"s": [start], "e": [INT64_MIN if step < 0 else 3], "a": [0], "p": [step]}
    held = bounds(**values) if known else bounds(a=[0])
    given = "" if known else ", int64[1] s, int64[1] e, int64[1] p"
    source = model(
        "y = Slice(x, s, e, a, p)", 10, inputs=f"float[{dims}] x{given}", outputs="float[M] y", constants=held
    )
    made = convert.attempt(source, {"": 9}).model
    expected = np.arange(3, dtype=np.float32)[2:3] if step < 0 else np.zeros(1, np.float32)
    feeds = {"x": np.arange(3, dtype=np.float32)} | ({} if known else {n: np.array(values[n]) for n in "sep"})
    np.testing.assert_array_equal(evaluate(made, feeds)[0], expected)
